/** Two PostgreSQL under Patroni in place of one: to break it down is to kill the machine of the primary. */
import { setTimeout as sleep } from 'node:timers/promises';
import { startDatabasePair } from '../../deploy/ha/database-pair.ts';
import { findHaPrograms } from '../../deploy/ha/ha-programs.ts';
import { freePort } from '../fixtures/free-port.ts';
import type { DatabaseServer } from './cluster.ts';

/** HAProxy has servers for APIs and supervisors too; nothing listens there. */
const nobody = '127.0.0.1:9';
const NOT_BALANCED = ['API_1', 'API_2', 'SUPERVISOR_1', 'SUPERVISOR_2', 'SUPERVISOR_3'];

/** Why this machine cannot run it; false where it can. */
export function whyNoPatroni(): string | false {
  const programs = findHaPrograms();
  return 'missing' in programs && `no ${programs.missing.join(', ')}: apt-get install ${programs.missing.join(' ')}`;
}

export async function startPatroniServer(folder: string): Promise<DatabaseServer> {
  const programs = findHaPrograms();
  if ('missing' in programs) throw new Error(`Not installed: ${programs.missing.join(', ')}.`);
  const balanced = Object.fromEntries(
    NOT_BALANCED.flatMap((name) => [
      [name, nobody],
      [`${name}_OPS_PORT`, '9'],
    ]),
  );
  const pair = await startDatabasePair({
    folder,
    programs,
    takePort: freePort,
    balanced: {
      ...balanced,
      API_BIND: `127.0.0.1:${await freePort()}`,
      SESSIONS_BIND: `127.0.0.1:${await freePort()}`,
    },
  });
  return {
    url: pair.url,
    async breakDown(awayMs) {
      await pair.waitUntilSafe();
      const roles = await Promise.all(pair.nodes.map((node) => node.readRole()));
      const primary = pair.nodes[roles.indexOf('primary')];
      await primary?.stop('SIGKILL');
      await sleep(awayMs);
      await primary?.start();
      await pair.waitUntilSafe();
    },
    stop: pair.stop,
  };
}
