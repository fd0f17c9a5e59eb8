/** API and supervisor as the processes they are, over one database, with everything they write kept. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { openIssuer } from '../../service/identity/tokens.ts';
import { bareEnvironment } from '../fixtures/bare-environment.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type Teardown, type TestDatabase, temporaryFolder, testDatabase } from '../runner/harness.ts';

export interface ServiceProcesses extends TestDatabase {
  readonly dataDir: string;
  readonly apiUrl: string;
  readonly sessionUrl: string;
  /** The metrics of both. */
  readonly metricsUrls: readonly string[];
  /** Standard output and error of both until now. */
  output(): string;
  token(user: string): Promise<string>;
}

/** Starts both with all log lines on; they are stopped with the test. */
export async function startProcesses(t: Teardown): Promise<ServiceProcesses> {
  const database = await testDatabase(t);
  const dataDir = await temporaryFolder(t);
  const issuer = await openIssuer(dataDir);
  const ports = [await freePort(), await freePort(), await freePort(), await freePort()].map(String);
  const [api, ops, session, sessionOps] = ports;
  const chunks: string[] = [];
  const env = {
    ...bareEnvironment,
    DATABASE_URL: database.url,
    DATA_DIR: dataDir,
    LOG_LEVEL: 'debug',
    PORT: api,
    API_OPS_PORT: ops,
    SUPERVISOR_PORT: session,
    SUPERVISOR_OPS_PORT: sessionOps,
  };
  await start(t, '../../supervisor/main.ts', env, chunks);
  await start(t, '../../api/main.ts', env, chunks);
  return {
    ...database,
    dataDir,
    apiUrl: `http://127.0.0.1:${api}/api`,
    sessionUrl: `http://127.0.0.1:${session}`,
    metricsUrls: [ops, sessionOps].map((port) => `http://127.0.0.1:${port}/metrics`),
    output: () => chunks.join(''),
    token: (user) => issuer.issue(user),
  };
}

async function start(t: Teardown, main: string, env: NodeJS.ProcessEnv, chunks: string[]): Promise<void> {
  // Without the test's own arguments: the leak guard is for test files.
  const child: ChildProcess = fork(fileURLToPath(new URL(main, import.meta.url)), [], {
    env,
    // A folder without a developer's `.env`.
    cwd: '/',
    execArgv: [],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => chunks.push(chunk));
  }
  const gone = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGTERM');
    await gone;
  });
  const [message] = await Promise.race([once(child, 'message'), gone]);
  if (message?.ready !== true) throw new Error(`${main} did not start: ${chunks.join('')}`);
}
