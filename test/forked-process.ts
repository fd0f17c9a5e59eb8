/** Starting one of the service's processes for a test, on ports of its own. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Teardown } from './harness.ts';

export interface ForkedProcess {
  readonly process: ChildProcess;
  /** Sends the signal and waits for the end. Answers the exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/**
 * Starts a process and waits until it says that it serves. It is ended with the test if it still runs.
 *
 * @param main path of its program
 * @param env all it is given besides `PATH`
 * @param lastSignal what ends it with the test
 */
export async function forkProcess(
  test: Teardown,
  main: string,
  env: Readonly<Record<string, string>>,
  lastSignal: NodeJS.Signals,
): Promise<ForkedProcess> {
  const child = fork(main, [], {
    // Not the runner's: the leak guard has nothing to look for in there.
    execArgv: [],
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const gone = once(child, 'exit');
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    const [code] = await gone;
    return code as number | null;
  };
  test.teardown(() => end(lastSignal));
  const [message] = (await Promise.race([once(child, 'message'), gone])) as [
    { ready?: boolean; failed?: string } | null,
  ];
  if (message?.ready !== true) {
    throw new Error(`${main} did not start: ${message?.failed ?? `it ended by ${child.signalCode ?? child.exitCode}`}`);
  }
  return { process: child, end };
}

/** A port that nobody listens on now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : 0;
}
