/** The real supervisor process, so that it can be killed. */
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { forkProcess } from '../fixtures/forked-process.ts';
import { freePort } from '../fixtures/free-port.ts';
import type { Teardown } from '../runner/harness.ts';
import type { StorageFixture } from './supervisor-fixture.ts';

const MAIN = fileURLToPath(new URL('../../supervisor/main.ts', import.meta.url));

export interface SupervisorProcess {
  readonly process: ChildProcess;
  readonly url: string;
  readonly opsUrl: string;
  /** SIGKILL, and gone. */
  kill(): Promise<void>;
  /** SIGTERM, and gone. Answers the exit code. */
  stop(): Promise<number | null>;
}

/** Starts `supervisor/main.ts` and waits until it serves. It is killed with the test if it still runs. */
export async function startProcess(
  test: Teardown,
  storage: Pick<StorageFixture, 'url' | 'dataDir'>,
  env: Readonly<Record<string, string>> = {},
): Promise<SupervisorProcess> {
  const [port, opsPort] = [await freePort(), await freePort()];
  const settings = { DATABASE_URL: storage.url, DATA_DIR: storage.dataDir, LOG_LEVEL: 'error' };
  const ports = { SUPERVISOR_PORT: String(port), SUPERVISOR_OPS_PORT: String(opsPort) };
  const { process: child, end } = await forkProcess(test, MAIN, { ...settings, ...ports, ...env }, 'SIGKILL');
  return {
    process: child,
    url: `http://127.0.0.1:${port}`,
    opsUrl: `http://127.0.0.1:${opsPort}`,
    kill: async () => void (await end('SIGKILL')),
    stop: () => end('SIGTERM'),
  };
}
