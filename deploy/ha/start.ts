/** `sh deploy/node.sh deploy/ha/start.ts`: high availability on one machine, to try it out. See docs/high-availability.md. */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { HIGHEST_PORT } from '../../service/settings/settings.ts';
import { findHaPrograms } from './ha-programs.ts';
import { startTrial } from './trial.ts';

const USAGE = `Usage: sh deploy/node.sh deploy/ha/start.ts [--folder DIR] [--port N] [--session-port N]

Starts on this one machine what high availability runs on three: etcd, two PostgreSQL under Patroni, HAProxy,
two APIs and three supervisors. For a trial only: one machine is not highly available. Ctrl-C stops everything.

  --folder DIR        new folder for data and logs; default .bulkhead-ha
  --port N            API, console and webhooks; default 4000
  --session-port N    session API; default 4010
  --help              this text

Install the programs first: apt-get install --no-install-recommends etcd-server patroni haproxy postgresql`;

const readOptions = () =>
  parseArgs({
    options: {
      folder: { type: 'string', default: '.bulkhead-ha' },
      port: { type: 'string', default: '4000' },
      'session-port': { type: 'string', default: '4010' },
      help: { type: 'boolean', default: false },
    },
  }).values;

/** @throws Error */
function readPort(option: string, given: string): number {
  const port = /^[1-9]\d{0,4}$/.test(given) ? Number(given) : HIGHEST_PORT + 1;
  if (port <= HIGHEST_PORT) return port;
  throw new Error(`--${option} must be a whole number from 1 to ${HIGHEST_PORT}.`);
}

async function run(values: ReturnType<typeof readOptions>): Promise<void> {
  const port = readPort('port', values.port);
  const sessionsPort = readPort('session-port', values['session-port']);
  const programs = findHaPrograms();
  if ('missing' in programs)
    throw new Error(`Programs are missing. Run: apt-get install --no-install-recommends ${programs.missing.join(' ')}`);
  const stopped = new Promise<void>((done) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => done());
  });
  const folder = resolve(values.folder);
  const trial = await startTrial({
    folder,
    programs,
    port,
    sessionsPort,
    onNotice: (sentence) => console.log(sentence),
  });
  console.log(`ready ${trial.url}/ and ${trial.sessionsUrl}. Data and logs: ${folder}
sign in: env $(cat ${trial.settingsFile}) npm run -s token -- ann --link
kill the primary: see docs/high-availability.md#try-it`);
  await stopped;
  console.log('stopping');
  await trial.stop();
}

try {
  const values = readOptions();
  if (values.help) console.log(USAGE);
  else await run(values);
  process.exit();
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(1);
}
