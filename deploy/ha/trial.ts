/** Everything that three machines run, on this one: the database pair, HAProxy, two APIs and three supervisors. */
import { randomBytes } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { migrate } from '../../db/postgres/migrate.ts';
import { completeSearchPath } from '../debian-packages.ts';
import { findFreePort } from '../ports.ts';
import { ServiceProcess } from '../service-process.ts';
import { type DatabasePair, startDatabasePair } from './database-pair.ts';
import type { HaPrograms } from './ha-programs.ts';

const HOST = '127.0.0.1';
/** First port that is tried for the connections between the processes. */
const FIRST_INNER_PORT = 14_100;
const NAMES = { api: ['api-1', 'api-2'], supervisor: ['supervisor-1', 'supervisor-2', 'supervisor-3'] } as const;
type Kind = keyof typeof NAMES;

const script = (kind: Kind): string => fileURLToPath(new URL(`../../${kind}/main.ts`, import.meta.url));

interface TrialOptions {
  /** Must be empty or missing. */
  readonly folder: string;
  readonly programs: HaPrograms;
  /** Port of the API and the console. */
  readonly port: number;
  /** Port of the session API. */
  readonly sessionsPort: number;
  /** More settings of all processes of Bulkhead. */
  readonly settings?: Readonly<Record<string, string>>;
  onNotice(sentence: string): void;
}
interface Trial {
  readonly url: string;
  readonly sessionsUrl: string;
  readonly database: DatabasePair;
  /** The settings that all processes have in common, as a file for commands. */
  readonly settingsFile: string;
  stop(): Promise<void>;
}

export async function startTrial(options: TrialOptions): Promise<Trial> {
  const { folder, programs, onNotice } = options;
  await mkdir(folder, { recursive: true, mode: 0o711 });
  if ((await readdir(folder)).length > 0) throw new Error(`${folder} is not empty: a trial starts in a new folder.`);
  let next = FIRST_INNER_PORT;
  const takePort = async (): Promise<number> => {
    const port = await findFreePort(HOST, next);
    next = port + 1;
    return port;
  };
  const members: Member[] = [];
  for (const kind of ['api', 'supervisor'] as const)
    for (const name of NAMES[kind]) members.push({ kind, name, port: await takePort(), opsPort: await takePort() });
  onNotice('starting etcd, two PostgreSQL under Patroni, and HAProxy');
  const balanced = describeBalanced(members, options);
  const database = await startDatabasePair({ folder: join(folder, 'database'), programs, takePort, balanced });
  const services: ServiceProcess[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(services.map((service) => service.stop(new AbortController().signal)));
    await database.stop();
  };
  try {
    await migrate(database.url);
    const shared = describeShared(options, database.url);
    const settingsFile = join(folder, 'settings.env');
    const lines = Object.entries({ ...shared, DATA_DIR: join(folder, 'commands') }).map((pair) => pair.join('='));
    await writeFile(settingsFile, `${lines.join('\n')}\n`, { mode: 0o600 });
    const PATH = await completeSearchPath(folder, { onNotice });
    for (const member of members) services.push(describeService(member, { ...shared, PATH }, options));
    onNotice('starting two APIs and three supervisors');
    await Promise.all(services.map((service) => service.start()));
    return { url: shared.PUBLIC_URL, sessionsUrl: shared.SUPERVISOR_URL, database, settingsFile, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface Member {
  readonly kind: Kind;
  readonly name: string;
  readonly port: number;
  readonly opsPort: number;
}

/** Returns the variables of `haproxy.cfg`. */
function describeBalanced(
  members: readonly Member[],
  { port, sessionsPort }: TrialOptions,
): Readonly<Record<string, string>> {
  const servers = members.flatMap((member) => {
    const name = member.name.toUpperCase().replace('-', '_');
    return [
      [name, `${HOST}:${member.port}`],
      [`${name}_OPS_PORT`, String(member.opsPort)],
    ];
  });
  return { API_BIND: `${HOST}:${port}`, SESSIONS_BIND: `${HOST}:${sessionsPort}`, ...Object.fromEntries(servers) };
}

const describeShared = ({ port, sessionsPort, settings }: TrialOptions, databaseUrl: string) => ({
  ...settings,
  DATABASE_URL: databaseUrl,
  CLUSTER_KEY: randomBytes(32).toString('base64'),
  BLOBS: 'database',
  PUBLIC_URL: `http://localhost:${port}`,
  SUPERVISOR_URL: `http://localhost:${sessionsPort}`,
  TRUST_PROXY: HOST,
});

/** `ServiceProcess` restarts it after a crash, as systemd does on the machines of a real deployment. */
function describeService(
  { kind, name, port, opsPort }: Member,
  shared: Readonly<Record<string, string>>,
  { folder, onNotice }: TrialOptions,
): ServiceProcess {
  const [own, operations] = kind === 'api' ? ['PORT', 'API_OPS_PORT'] : ['SUPERVISOR_PORT', 'SUPERVISOR_OPS_PORT'];
  const log = join(folder, `${name}.log`);
  return new ServiceProcess({
    name,
    main: script(kind),
    env: {
      ...shared,
      NODE_COMPILE_CACHE: join(folder, 'compile-cache'),
      DATA_DIR: join(folder, name),
      [own as string]: String(port),
      [operations as string]: String(opsPort),
    },
    onLine: (line) => appendFileSync(log, `${line}\n`),
    onNotice,
  });
}
