/** The real supervisor process, so that it can be killed. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Teardown } from '../harness.ts';
import type { Ground } from './world.ts';

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
  ground: Pick<Ground, 'url' | 'dataDir'>,
): Promise<SupervisorProcess> {
  const [port, opsPort] = [await freePort(), await freePort()];
  const child = fork(MAIN, [], {
    // Not the runner's: the leak guard has nothing to look for in there.
    execArgv: [],
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: ground.url,
      DATA_DIR: ground.dataDir,
      LOG_LEVEL: 'error',
      SUPERVISOR_PORT: String(port),
      SUPERVISOR_OPS_PORT: String(opsPort),
    },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const gone = once(child, 'exit');
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    const [code] = await gone;
    return code as number | null;
  };
  test.teardown(() => end('SIGKILL'));
  const [message] = (await Promise.race([once(child, 'message'), gone])) as [{ ready?: boolean }];
  if (message?.ready !== true) throw new Error('the supervisor did not start');
  return {
    process: child,
    url: `http://127.0.0.1:${port}`,
    opsUrl: `http://127.0.0.1:${opsPort}`,
    kill: async () => void (await end('SIGKILL')),
    stop: () => end('SIGTERM'),
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : 0;
}
