/** `npm start` as the process it is: on free ports, with a folder of its own, every process of it watched. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { findOrCreateAccount, setOperator } from '../../db/accounts/accounts.ts';
import { openIssuer } from '../../service/identity/tokens.ts';
import { type ForkedProcess, forkProcess } from '../fixtures/forked-process.ts';
import { freePort } from '../fixtures/free-port.ts';
import { eventually } from '../runner/eventually.ts';
import { type Teardown, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { processTree, type Seen, stillRunning } from './process-tree.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MAIN = fileURLToPath(new URL('../../deploy/local.ts', import.meta.url));
const API = fileURLToPath(new URL('../../api/main.ts', import.meta.url));
const SUPERVISOR = fileURLToPath(new URL('../../supervisor/main.ts', import.meta.url));
/** A folder without a developer's `.env`. */
const EMPTY_FOLDER = '/';
/** Settings of a developer's shell that would lead a service astray. */
const FOREIGN = ['DATABASE_URL', 'TOKEN', 'BULKHEAD_TEST_DATABASE_URL', 'SANDBOX', 'PUBLIC_URL'];

export interface Ports {
  readonly PORT: string;
  readonly SUPERVISOR_PORT: string;
  readonly API_OPS_PORT: string;
  readonly SUPERVISOR_OPS_PORT: string;
}
export type Environment = Readonly<Record<string, string>>;
export interface Exit {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}
/** One that was started, ready or not. */
export interface StartedService {
  readonly pid: number;
  /** Lines of standard output until now. */
  readonly lines: readonly string[];
  stderr(): string;
  /** Its processes now; remembered for `leftovers`. */
  processes(): Promise<Seen[]>;
  /** Returns the processes seen so far that still run: an empty list as soon as none does, else after a while. */
  leftovers(): Promise<Seen[]>;
  /** Waits for a line of standard output. */
  line(wanted: RegExp): Promise<string>;
  kill(signal: NodeJS.Signals): void;
  readonly exited: Promise<Exit>;
}
interface Calls {
  /** Everything it was started with that is not the machine's own. */
  readonly env: Environment & Ports & { DATA_DIR: string };
  readonly url: string;
  /** Token of the operator `local`; empty where an issuer makes the tokens. */
  readonly token: string;
  /** Calls the REST interface, or with a full address anything else, as the operator `local`. */
  call(method: string, path: string, body?: unknown, token?: string): Promise<Answer>;
  /** Calls the session API. */
  session(method: string, path: string, body?: unknown, token?: string): Promise<Answer>;
}
/** A service that answers calls. */
export type CalledService<Started = object> = Started &
  Calls & {
    /** Returns the same service, called by another account. */
    asUser(name: string): Promise<CalledService<Started>>;
  };
export type ServiceFixture = CalledService<StartedService>;
export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly body: any;
}

/** A free port for each of the four settings. */
export async function freePorts(): Promise<Ports> {
  return {
    PORT: String(await freePort()),
    SUPERVISOR_PORT: String(await freePort()),
    API_OPS_PORT: String(await freePort()),
    SUPERVISOR_OPS_PORT: String(await freePort()),
  };
}

interface Where {
  readonly node?: string;
  readonly cwd?: string;
  readonly stderrTo?: number | undefined;
}

/**
 * Starts it and waits until it is ready. It is stopped with the test.
 *
 * @param main another release's program
 * @param where its working folder, the Node that runs it, and a file to which its standard error goes
 */
export async function startServiceFixture(
  t: Teardown,
  env: Environment & { DATA_DIR: string },
  main = MAIN,
  { node = process.execPath, cwd = EMPTY_FOLDER, stderrTo }: Where = {},
): Promise<ServiceFixture> {
  const full = { ...(await freePorts()), ...env };
  const started = run({ ...findCompiledModules(main), ...full }, { command: node, args: [main], cwd, stderrTo });
  t.teardown(async () => {
    started.kill('SIGTERM');
    await started.exited;
  });
  await started.line(/^bulkhead ready /).catch(async (error) => {
    // A file that fails before its first test runs no teardown.
    started.kill('SIGTERM');
    await started.exited;
    throw error;
  });
  // With an issuer of tokens nobody else makes any.
  const token = env.OIDC_ISSUER ? '' : await (await openIssuer(env.DATA_DIR)).issue('local');
  return withToken(started, full, token);
}

/** A copy of this checkout has a link to the cache at the same place: Node finds modules by their path from there. */
function findCompiledModules(main: string): Environment {
  const { NODE_COMPILE_CACHE } = process.env;
  if (main === MAIN || NODE_COMPILE_CACHE === undefined) return {};
  return { NODE_COMPILE_CACHE: join(dirname(dirname(main)), relative(ROOT, NODE_COMPILE_CACHE)) };
}

function withToken<Started>(started: Started, env: Calls['env'], token: string): CalledService<Started> {
  const url = `http://localhost:${env.PORT}`;
  const sessionUrl = `http://localhost:${env.SUPERVISOR_PORT}`;
  return {
    ...started,
    env,
    url,
    token,
    asUser: async (name) => withToken(started, env, await (await openIssuer(env.DATA_DIR)).issue(name)),
    call: (method, path, body, as = token) => request(method, new URL(path, url).href, as, body),
    session: (method, path, body, as = token) => request(method, `${sessionUrl}${path}`, as, body),
  };
}

/** Starts it on a database of the tests' PostgreSQL: for tests that are not about the embedded one. */
export async function startServiceOnTestDatabase(
  t: Teardown,
  env: Environment = {},
  main = MAIN,
): Promise<ServiceFixture> {
  const { url } = await testDatabase(t);
  const DATA_DIR = join(await temporaryFolder(t), 'data');
  return startServiceFixture(t, { DATA_DIR, DATABASE_URL: url, ...env }, main);
}

/** API and supervisor without `npm start`. */
export interface StartedPair {
  /** SIGTERM, and both are gone. */
  stop(): Promise<void>;
}

/** Starts API and supervisor without `npm start`, for tests that only call them. They are stopped with the test. */
export async function startApiAndSupervisor(t: Teardown, env: Environment = {}): Promise<CalledService<StartedPair>> {
  const { url: DATABASE_URL, pool } = await testDatabase(t);
  const DATA_DIR = env.DATA_DIR ?? (await temporaryFolder(t));
  const full = { LOG_LEVEL: 'error', ...(await freePorts()), ...env, DATA_DIR, DATABASE_URL };
  // As `npm start` does.
  await setOperator(pool, (await findOrCreateAccount(pool, 'local')).id, true);
  const started: ForkedProcess[] = [];
  for (const main of [SUPERVISOR, API]) started.push(await forkProcess(t, main, full, 'SIGTERM'));
  const stop = async () => void (await Promise.all(started.map(({ end }) => end('SIGTERM'))));
  return withToken({ stop }, full, await (await openIssuer(DATA_DIR)).issue('local'));
}

/** The API alone, on ports of its own. */
export interface StartedApi extends Pick<ServiceFixture, 'url' | 'call'> {
  /** SIGTERM, and gone. */
  stop(): Promise<void>;
}

/** Starts the API alone, for tests that only read what is stored: it takes a third of the processor time of a whole service. */
export async function startApiAlone(
  t: Teardown,
  env: Environment & { DATA_DIR: string; DATABASE_URL: string },
): Promise<StartedApi> {
  const ports = await freePorts();
  const { end } = await forkProcess(t, API, { LOG_LEVEL: 'error', ...env, ...ports }, 'SIGTERM');
  const url = `http://127.0.0.1:${ports.PORT}`;
  const call: ServiceFixture['call'] = async (method, path, body, token) =>
    request(method, new URL(path, url).href, token ?? (await (await openIssuer(env.DATA_DIR)).issue('local')), body);
  return { url, call, stop: async () => void (await end('SIGTERM')) };
}

/** Starts one that is not expected to be ready. */
export async function startOnly(env: Environment): Promise<StartedService> {
  return run({ ...(await freePorts()), ...env }, { command: process.execPath, args: [MAIN], cwd: EMPTY_FOLDER });
}

/** The real `npm start`, in a process group of its own. It is killed with the test, with everything below it, ready or not. */
export function startNpm(t: Teardown, env: Environment & Ports): StartedService {
  const started = run({ ...hideEnvFile(), ...env }, { command: 'npm', args: ['start', '--silent'], cwd: ROOT });
  t.teardown(async () => {
    for (const { pid } of await started.processes()) killIfRunning(pid);
    await started.exited;
  });
  return started;
}

/** Settings of a developer's `.env`, which lies where npm starts it: variables win, and an empty one counts as not set. */
function hideEnvFile(): Environment {
  const file = join(ROOT, '.env');
  const settings = existsSync(file) ? parseEnv(readFileSync(file, 'utf8')) : {};
  return Object.fromEntries(Object.keys(settings).map((name) => [name, '']));
}

function killIfRunning(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended meanwhile.
  }
}

function run(
  env: Environment,
  { command, args, cwd, stderrTo }: Where & { readonly command: string; readonly args: readonly string[] },
): StartedService {
  const inherited = { ...process.env };
  for (const name of FOREIGN) delete inherited[name];
  // Its own process group, as in a terminal.
  const options = { cwd, env: { ...inherited, ...env }, detached: true };
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', stderrTo ?? 'pipe'] });
  assert.ok(child.stdout);
  const lines: string[] = [];
  let stderr = '';
  createInterface({ input: child.stdout }).on('line', (text) => lines.push(text));
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    stderr += chunk;
  });
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return {
    ...watched(child.pid ?? 0),
    lines,
    stderr: () => stderr,
    exited: once(child, 'close').then(([code]) => ({ code, stdout: lines.join('\n'), stderr })),
    line: (wanted) =>
      eventually(() => {
        const found = lines.find((text) => wanted.test(text));
        if (found === undefined && hasEnded()) throw new Error(`it ended before it said ${wanted}: ${stderr}`);
        return found ?? false;
      }),
    kill: (signal) => void child.kill(signal),
  };
}

function watched(pid: number): Pick<StartedService, 'pid' | 'processes' | 'leftovers'> {
  const known = new Map<string, Seen>();
  const remaining = (): Promise<Seen[]> => stillRunning(known.values());
  return {
    pid,
    async processes() {
      const tree = await processTree(pid);
      for (const seen of tree) known.set(`${seen.pid} ${seen.born}`, seen);
      return tree;
    },
    leftovers: () => eventually(async () => (await remaining()).length === 0 && []).catch(remaining),
  };
}

async function request(method: string, url: string, token: string, body: unknown): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      // A connection kept for later would outlive the test.
      connection: 'close',
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') === true;
  return { status: response.status, body: isJson ? JSON.parse(text) : text };
}
