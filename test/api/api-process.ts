/** The real API process over a real socket, with a stand-in for the supervisor that knows one answer. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { answerIntrospection, type Introspection } from '../../db/jobs/introspections.ts';
import { openIssuer } from '../../service/identity/tokens.ts';
import { forkProcess } from '../fixtures/forked-process.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type Teardown, type TestDatabase, temporaryFolder, testDatabase } from '../runner/harness.ts';

const MAIN = fileURLToPath(new URL('../../api/main.ts', import.meta.url));
const POLL_MS = 20;

export interface ApiProcess {
  readonly port: number;
  readonly dataDir: string;
  readonly database: TestDatabase;
  readonly token: string;
  /** Resident memory of the process now, and the most it ever had. Bytes. */
  memory(): { readonly resident: number; readonly peak: number };
  /** A small JSON request. */
  call(method: string, path: string, body?: unknown): Promise<{ status: number; body: Record<string, unknown> }>;
}

/** @param introspection what every package is said to register */
export async function startApiProcess(
  test: Teardown,
  introspection: Introspection,
  env: Readonly<Record<string, string>> = {},
): Promise<ApiProcess> {
  const dataDir = await temporaryFolder(test);
  const database = await testDatabase(test);
  answerQuestions(test, database, introspection);
  const [port, opsPort] = [await freePort(), await freePort()];
  const settings = { DATABASE_URL: database.url, DATA_DIR: dataDir, LOG_LEVEL: 'error' };
  const ports = { PORT: String(port), API_OPS_PORT: String(opsPort) };
  const { process: child } = await forkProcess(test, MAIN, { ...settings, ...ports, ...env }, 'SIGTERM');
  const token = await (await openIssuer(dataDir)).issue('ann');
  return {
    port,
    dataDir,
    database,
    token,
    memory() {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      const bytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024;
      return { resident: bytes('VmRSS'), peak: bytes('VmHWM') };
    },
    async call(method, path, body) {
      const headers = { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) };
      const answer = await fetch(`http://127.0.0.1:${port}/api${path}`, {
        method,
        headers,
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
    },
  };
}

/** Answers what the API asks of supervisors. */
function answerQuestions(test: Teardown, { pool }: TestDatabase, introspection: Introspection): void {
  let stopped = false;
  const answering = (async () => {
    while (!stopped) {
      const open = await pool.query<{ id: string }>('SELECT id FROM introspections WHERE result IS NULL');
      for (const { id } of open.rows) await answerIntrospection(pool, id, introspection);
      await sleep(POLL_MS);
    }
  })();
  test.teardown(async () => {
    stopped = true;
    await answering;
  });
}
