/**
 * `npm start`: runs everything on one machine: PostgreSQL (unless DATABASE_URL is set), migrations, API and supervisor.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findOrCreateAccount, hasOperator, setOperator } from '../db/accounts/accounts.ts';
import { explainDenied, ignoreMissing, makeDataDir } from '../db/files/data-dir.ts';
import { migrate } from '../db/postgres/migrate.ts';
import { openPool } from '../db/postgres/pool.ts';
import { issueSignInLink } from '../service/identity/console-sessions.ts';
import { requireOneDatabase } from '../service/lifecycle/database-addresses.ts';
import { createDatabaseFault, requireWholeRestore } from '../service/lifecycle/start-faults.ts';
import { apiSettings } from '../service/settings/api-settings.ts';
import {
  ENV_FILE_READ_VARIABLE,
  localSettings,
  parseSettings,
  pickSessionSetting,
  publicUrl,
  readEnvironment,
  type SharedSettings,
} from '../service/settings/settings.ts';
import { supervisorSettings } from '../service/settings/supervisor-settings.ts';
import { describeUnknownNames } from '../service/settings/unknown-names.ts';
import { openBoundedOutput } from '../service/telemetry/logger.ts';
import { within } from '../service/timing/within.ts';
import { actAsOwner } from './data-dir-owner.ts';
import { keepDatabase } from './database.ts';
import { completeSearchPath } from './debian-packages.ts';
import { holdSocket } from './listening-sockets.ts';
import { waitForOrphans } from './orphaned-services.ts';
import { refuseTakenPorts } from './ports.ts';
import { replaceServices } from './replacement.ts';
import { ServiceProcess } from './service-process.ts';

/** The account that the sign-in link signs in. */
const LOCAL_USER = 'local';
/** The working folder. During an upgrade, its path becomes that of another folder: the one with the new release. */
const FOLDER = process.cwd();
/** On Ctrl-C, npm sends the terminal's signal again. A second signal within this time is npm's. Milliseconds. */
const ECHO_MS = 1_000;
/** When all parts have stopped, the output waits for its reader for this time. Milliseconds. */
const OUTPUT_MAX_MS = 5_000;
/** Longest part of the output of a failed build that is printed. Characters. */
const PROBLEM_MAX_CHARS = 500;
/** Interval between two checks that npm still runs. Milliseconds. */
const PARENT_POLL_MS = 500;

const HELP = `Usage: npm start

Runs everything on this machine: PostgreSQL (unless DATABASE_URL is set), migrations, API, supervisor and console.
Ctrl-C stops it.

Environment, also from .env
  PORT              console and REST interface      (4000)
  SUPERVISOR_PORT   session API                     (4010)
  DATA_DIR          database, keys and packages     (./.bulkhead)
  DATABASE_URL      an existing PostgreSQL server

.env.example lists all settings, docs/settings.md describes them.`;

const script = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));
/** Logs go to standard error, so that standard output has only the progress and the ready line. */
const logs = process.stderr.isTTY ? await openPrettyLog() : openBoundedOutput(process.stderr);

/** Parts in the order of their start. They are stopped in reverse order, PostgreSQL last. */
const running: { name: string; stop(force: AbortSignal): Promise<void> }[] = [];
/** Supervisor and API. */
const services: ServiceProcess[] = [];
const force = new AbortController();
/** Aborted when everything must stop. */
const starting = new AbortController();
let stopping: Promise<void> | undefined;
let signalledAt = Number.NEGATIVE_INFINITY;
/** Options of a replacement. Null until the service is ready. */
let replaceable: ReplacementOptions | null = null;
let replacing: Promise<void> = Promise.resolve();

const [argument] = process.argv.slice(2);
if (argument !== undefined) {
  const isHelp = argument === '--help' || argument === '-h';
  if (isHelp) console.log(HELP);
  else
    console.error(`npm start accepts no “${argument}”: settings are environment variables. See npm start -- --help.`);
  process.exit(isHelp ? 0 : 2);
}

// A reader of the output may close its pipe. Keep running.
for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
stopWithNpm();
// Replaces the code and keeps the sockets.
process.on('SIGUSR2', () => void replaceAll());
const started = start().catch(async (error: unknown) => {
  // If a stop was requested during the start, a part that could not start is not a failure.
  if (stopping === undefined) {
    console.error(error instanceof Error ? error.message : String(error));
    process.exitCode = 1;
  }
  await stopAll();
});

async function start(): Promise<void> {
  const env = readEnvironment();
  // Those of API and supervisor, too: these start last, when PostgreSQL runs and the tables are migrated.
  const settings = parseSettings({ ...apiSettings, ...supervisorSettings, ...localSettings }, env);
  for (const sentence of describeUnknownNames(env)) printLine(sentence);
  actAsOwner(settings.DATA_DIR);
  await makeDataDir(settings.DATA_DIR);
  const checkDataDir = await rememberFolder(settings.DATA_DIR);
  await requireWholeRestore(settings.DATA_DIR);
  await requireOneDatabase(settings);
  // Reuse modules compiled by an earlier start, which halves the time of both services and saves a third of that of the builders.
  const NODE_COMPILE_CACHE = env.NODE_COMPILE_CACHE ?? join(settings.DATA_DIR, 'compile-cache');
  const built = buildSites(NODE_COMPILE_CACHE);
  const needsBubblewrap = settings.SANDBOX_FETCH === 'on' && env.SANDBOX !== 'off';
  const fetching = { onNotice: printLine, signal: starting.signal };
  const findSearchPath = async () => (needsBubblewrap ? completeSearchPath(settings.DATA_DIR, fetching) : env.PATH);
  const searchPath = findSearchPath();
  const url = settings.DATABASE_URL ?? (await startDatabase(settings));
  await waitForOrphans(settings.DATA_DIR, printLine, starting.signal);
  if (stopping !== undefined) return;
  await refuseTakenPorts(settings);
  if (stopping !== undefined) return;
  const sessionUrl = settings.DATABASE_SESSION_URL ?? url;
  await prepareTables(sessionUrl, settings);
  if (stopping !== undefined) return;
  await built;
  const childEnv = {
    ...env,
    DATABASE_URL: url,
    DATA_DIR: settings.DATA_DIR,
    NODE_COMPILE_CACHE,
    [ENV_FILE_READ_VARIABLE]: 'yes',
  };
  const supervisorPorts = [settings.SUPERVISOR_PORT, settings.SUPERVISOR_OPS_PORT] as const;
  // The supervisor starts before the API and so stops after it, because a publish in progress needs it for introspection.
  const supervisorEnv = { ...childEnv, PATH: await searchPath };
  const checkStart = () => requireFolder(settings.DATA_DIR);
  const supervisor = { name: 'supervisor', main: script('supervisor/main.ts'), env: supervisorEnv, checkStart };
  await startChild(supervisor, settings, supervisorPorts);
  const api = { name: 'API', main: script('api/main.ts'), env: childEnv, checkStart };
  await startChild(api, settings, [settings.PORT, settings.API_OPS_PORT]);
  const completePath = async (): Promise<void> => {
    supervisorEnv.PATH = await findSearchPath();
  };
  if (stopping !== undefined) return;
  replaceable = { env: childEnv, readyTimeoutMs: settings.READY_SECONDS * 1_000, checkDataDir, completePath };
  const hint = await describeSignIn(settings, sessionUrl);
  if (stopping === undefined)
    printLine(`bulkhead ready ${publicUrl(settings)}/${hint === null ? '' : `\nsign in: ${hint}`}`);
}

/** A failed build prevents neither a start nor a replacement. */
async function buildSites(compileCache: string | undefined): Promise<void> {
  await Promise.all([
    buildSite('console', 'console/build-console.ts', compileCache),
    buildSite('docs', 'docs/build-site.ts', compileCache),
  ]);
}

async function buildSite(name: string, builder: string, NODE_COMPILE_CACHE: string | undefined): Promise<void> {
  try {
    await promisify(execFile)(process.execPath, [script(builder)], { env: { ...process.env, NODE_COMPILE_CACHE } });
  } catch (error) {
    // Ctrl-C ends the builds, too.
    if (stopping !== undefined) return;
    const output = (error as { stderr?: string }).stderr?.trim() || String(error);
    // One line instead of the stack.
    const problem = /^\w*Error: .*$/m.exec(output)?.[0] ?? output.slice(-PROBLEM_MAX_CHARS);
    const remedy = /\b(EACCES|EROFS|EPERM)\b/.test(problem)
      ? `. Run sh deploy/node.sh ${builder} as the owner of this folder`
      : '';
    printLine(`${name} could not be built, so an older one or none is served: ${problem}${remedy}`);
  }
}

async function startDatabase({ DATA_DIR, DATABASE_CONNECTIONS }: SharedSettings): Promise<string> {
  printLine('starting PostgreSQL');
  const database = await keepDatabase(DATA_DIR, DATABASE_CONNECTIONS, printLine).catch(async (error: unknown) => {
    throw await explainDenied(error, DATA_DIR);
  });
  running.push({ name: 'PostgreSQL', stop: () => database.stop() });
  // A stop that was requested meanwhile did not find PostgreSQL in the list.
  if (stopping !== undefined) await stopRunning();
  return database.url;
}

async function prepareTables(url: string, settings: SharedSettings): Promise<void> {
  try {
    const applied = await migrate(url, { onWait: printLine, signal: starting.signal });
    if (applied.length > 0) printLine(`migrations applied: ${applied.join(', ')}`);
  } catch (error) {
    if (settings.DATABASE_URL === undefined) throw error;
    throw createDatabaseFault(pickSessionSetting(settings), error);
  }
}

async function startChild(
  options: Pick<ConstructorParameters<typeof ServiceProcess>[0], 'name' | 'main' | 'env' | 'checkStart'>,
  { HOST, OPS_HOST }: SharedSettings,
  [port, operationsPort]: readonly [number, number],
): Promise<void> {
  if (stopping !== undefined) return;
  const { name } = options;
  printLine(`starting the ${name}`);
  const sockets = [await holdSocket('service', HOST, port), await holdSocket('operations', OPS_HOST, operationsPort)];
  // A stop that was requested meanwhile did not find this service in the list.
  if (stopping !== undefined) {
    for (const socket of sockets) socket.close();
    return;
  }
  const onLine = (line: string): void => void logs.write(`${line}\n`);
  const service = new ServiceProcess({ ...options, sockets, onLine, onNotice: printLine });
  const stop = async (signal: AbortSignal): Promise<void> => {
    await service.stop(signal);
    for (const socket of sockets) socket.close();
  };
  running.push({ name: `the ${name}`, stop });
  services.push(service);
  await service.start();
}

interface ReplacementOptions extends Pick<Parameters<typeof replaceServices>[0], 'env' | 'readyTimeoutMs'> {
  /** @throws Error with one sentence if DATA_DIR was moved, as part of the old release's folder */
  checkDataDir(): Promise<void>;
  /** Fetches bubblewrap if it is missing: root's copy is in `node_modules`, and so it may have gone with the old release. */
  completePath(): Promise<void>;
}

/** @returns a function that throws if the path of DATA_DIR meanwhile leads to another folder, or to none */
async function rememberFolder(dataDir: string): Promise<() => Promise<void>> {
  const { dev, ino } = await stat(dataDir);
  return async () => {
    const now = await stat(dataDir).catch(ignoreMissing);
    if (now?.dev === dev && now.ino === ino) return;
    throw new Error(
      `DATA_DIR ${dataDir} was moved. If it is in the folder of the old release, exchange the folders back.`,
    );
  };
}

/** Node would create a missing DATA_DIR with its folder of compiled modules, and the real one could not be moved back. */
async function requireFolder(dataDir: string): Promise<void> {
  if ((await stat(dataDir).catch(ignoreMissing)) !== null) return;
  throw new Error(
    `DATA_DIR ${dataDir} is missing. If it is in the folder of the old release, exchange the folders back.`,
  );
}

/** Moves this process, and so all that it starts, from the folder of the old release to that of the new one. */
function enterFolder(): void {
  try {
    process.chdir(FOLDER);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`${FOLDER} cannot be entered (${code}). Move a release there and send SIGUSR2 again.`);
  }
}

/** Fetches libatomic if Node, which belongs to the new release, does not find it. @throws Error with one sentence */
async function checkNode(): Promise<void> {
  try {
    const { stderr } = await promisify(execFile)('sh', [script('deploy/node.sh'), '--version']);
    if (stderr !== '') printLine(stderr.trim());
  } catch (error) {
    // The lines before the last one tell what was fetched.
    const lines = ((error as { stderr?: string }).stderr ?? '').trim().split('\n');
    throw new Error(lines.at(-1) || String(error));
  }
}

/** Runs one replacement after another. */
function replaceAll(): Promise<void> {
  replacing = replacing.then(replaceOnce);
  return replacing;
}

async function replaceOnce(): Promise<void> {
  if (stopping !== undefined) return;
  try {
    if (replaceable === null) throw new Error('the service is still starting.');
    // First, so that nothing writes into a DATA_DIR without keys and data.
    await replaceable.checkDataDir();
    enterFolder();
    await checkNode();
    await replaceable.completePath();
    // The new API lists the pages of the sites once, at its start.
    await buildSites(replaceable.env.NODE_COMPILE_CACHE);
    const migrated = await replaceServices({ services, ...replaceable, signal: starting.signal });
    printLine(`replaced: API and supervisor run the code in ${FOLDER} (${migrated})`);
  } catch (error) {
    printLine(`not replaced: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/**
 * Returns a sign-in link if the output is a terminal, otherwise a command that makes one, because other people may read a log.
 * Returns null with OIDC_ISSUER: the console then sends the user to the issuer.
 */
async function describeSignIn(settings: SharedSettings, url: string): Promise<string | null> {
  if (settings.OIDC_ISSUER !== undefined) return null;
  const database = openPool(url, { name: 'bulkhead-local', connections: 1, onError: () => undefined });
  try {
    const account = await findOrCreateAccount(database.pool, LOCAL_USER);
    // Not if there is an operator: another one may have demoted this account.
    if (!(await hasOperator(database.pool))) await setOperator(database.pool, account.id, true);
    if (!process.stdout.isTTY) return `run npm run -s token -- ${LOCAL_USER} --link`;
    const link = await issueSignInLink(database.pool, account.id, publicUrl(settings));
    return `${link}\n         once, within five minutes; npm run -s token -- ${LOCAL_USER} --link makes another`;
  } finally {
    await database.close();
  }
}

/** The first signal stops the parts in order. A second one ends the wait for running calls. */
function onSignal(): void {
  if (stopping !== undefined) {
    if (performance.now() - signalledAt > ECHO_MS) force.abort();
    return;
  }
  signalledAt = performance.now();
  printLine('stopping');
  void stopAll();
}

/** Stops if npm ends, because this process then receives neither Ctrl-C nor signals to npm. */
function stopWithNpm(): void {
  if (process.env.npm_lifecycle_event !== 'start') return;
  const npm = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === npm) return;
    clearInterval(timer);
    onSignal();
  }, PARENT_POLL_MS).unref();
}

function stopAll(): Promise<void> {
  starting.abort();
  if (stopping === undefined) {
    stopping = stopRunning();
    // A start in progress may stop PostgreSQL later than that.
    void Promise.all([stopping, started, replacing]).then(endOutput);
  }
  return stopping;
}

/** Ends this process if its output is not read: the lines that wait for the reader would keep it running. */
async function endOutput(): Promise<void> {
  const outputs = [process.stdout, process.stderr];
  const written = outputs.map((output) => new Promise<void>((resolve) => output.write('', () => resolve())));
  const forced = force.signal.aborted ? null : once(force.signal, 'abort');
  await within(Promise.race([Promise.all(written), forced]), OUTPUT_MAX_MS);
  if (outputs.some(({ writableLength }) => writableLength > 0)) process.exit();
}

async function stopRunning(): Promise<void> {
  for (let next = running.pop(); next !== undefined; next = running.pop()) {
    await next.stop(force.signal);
    printLine(`${next.name} stopped`);
  }
}

async function openPrettyLog() {
  // Loaded only here: it is 30 modules, which a start without a terminal does not need.
  const { default: pretty } = await import('pino-pretty');
  return pretty({ destination: 2, sync: true });
}

function printLine(line: string): void {
  process.stdout.write(`${line}\n`);
}
