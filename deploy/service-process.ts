/** Runs API or supervisor as a child process, and restarts it after a crash. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentMessage } from '../service/lifecycle/parent.ts';
import { computeBackoff, LONG_RUN_MS } from './backoff.ts';
import type { HeldSocket } from './listening-sockets.ts';

/** A process that is not ready within this time has failed to start. Milliseconds. */
const READY_TIMEOUT_MS = 120_000;
/** Wait for the last lines of output, which a surviving child of the process may hold open. Milliseconds. */
const LAST_LINES_MS = 1_000;
/** Maximum drain: running calls and one chain of hooks. Then the process is killed. Milliseconds. */
const STOP_TIMEOUT_MS = 30_000;

/**
 * V8 would let new objects fill 64 MB before it collects them. Each of those collections stops the event loop for 10 to 30 ms on a
 * busy machine, with this limit for 2 ms, and a peak leaves 100 MB less behind. The image sets the same in `NODE_OPTIONS`.
 */
export const HEAP_FLAGS = ['--max-semi-space-size=4'];

interface ServiceOptions {
  /** Name for the user, such as `API`. */
  readonly name: string;
  /** Path of the script. */
  readonly main: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Passed to every process of the service, which listens on them. */
  readonly sockets?: readonly HeldSocket[];
  /** Called for each line of output: pino's JSON, or plain text. */
  onLine(line: string): void;
  /** Called with one sentence about the process. */
  onNotice(sentence: string): void;
}

/** One process of the service. */
interface Run {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
}

/** Created, started and stopped once each. `stop` may be called during the start. */
export class ServiceProcess {
  readonly #options: ServiceOptions;
  readonly #stopping = new AbortController();
  /** Two while a process replaces another. */
  readonly #runs = new Set<Run>();
  #current: Run | undefined;
  #watch: Promise<void> = Promise.resolve();
  #replacing: Promise<void> = Promise.resolve();

  constructor(options: ServiceOptions) {
    this.#options = options;
  }

  /**
   * Starts the process and resolves when it is ready. Afterwards it is restarted whenever it exits.
   *
   * @throws Error with one sentence when the first start fails
   */
  async start(): Promise<void> {
    this.#current = await this.#launch();
    this.#watch = this.#restartForever();
  }

  /**
   * Starts a new process and stops the old one when the new one is ready. The parent holds the sockets, so no
   * connection is refused.
   *
   * @throws Error with one sentence when the new process does not start; the old one keeps running
   */
  replace(): Promise<void> {
    const replaced = this.#replacing.then(async () => {
      if (this.#stopping.signal.aborted) return;
      const before = this.#current;
      this.#current = await this.#launch();
      if (before) await end(before, new AbortController().signal);
    });
    this.#replacing = replaced.catch(() => undefined);
    return replaced;
  }

  /** Drains and stops it, by SIGKILL after a time-out or when `force` is aborted. It is not restarted. */
  async stop(force: AbortSignal): Promise<void> {
    this.#stopping.abort();
    await Promise.all([...this.#runs].map((run) => end(run, force)));
    await this.#replacing;
    await this.#watch;
  }

  async #launch(): Promise<Run> {
    const { main, env, sockets = [], onLine, onNotice } = this.#options;
    const names = sockets.map((socket) => socket.name).join(':');
    const handed = sockets.length === 0 ? {} : { LISTEN_FDS: String(sockets.length), LISTEN_FDNAMES: names };
    // Detached: Ctrl-C in a terminal signals the whole process group, but the parent must control the order of
    // stopping.
    const child = spawn(process.execPath, [...HEAP_FLAGS, main], {
      env: { ...env, ...handed },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', ...sockets.map((socket) => socket.fd), 'ipc'],
    });
    const run = { child, ended: waitForEnd(child) };
    this.#runs.add(run);
    void run.ended.then(() => this.#runs.delete(run));
    let reason = '';
    for (const input of [child.stdout, child.stderr]) {
      if (input === null) continue;
      createInterface({ input }).on('line', (line) => {
        // A crash prints its stack and the Node version below the line with the error.
        if (/Error\b.*:/.test(line) || (reason === '' && line.trim() !== '' && !line.startsWith('{'))) reason = line;
        onLine(line);
      });
    }
    const failure = await this.#outcome(child, onNotice);
    if (failure === null) return run;
    child.kill('SIGKILL');
    await run.ended;
    throw new Error(failure === '' ? `The ${this.#options.name} ended while starting: ${reason}` : failure);
  }

  async #restartForever(): Promise<void> {
    const { name, onNotice } = this.#options;
    const { signal } = this.#stopping;
    for (let failures = 0; ; ) {
      const began = Date.now();
      const watched = this.#current;
      await watched?.ended;
      await this.#replacing;
      if (signal.aborted) return;
      // Its successor is ready.
      if (watched !== this.#current) continue;
      failures = Date.now() - began > LONG_RUN_MS ? 0 : failures + 1;
      const delay = computeBackoff(failures);
      onNotice(`The ${name} ended (${describeEnd(watched?.child)}). Restarting it in ${delay} ms.`);
      await sleep(delay, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        this.#current = await this.#launch();
        onNotice(`The ${name} is running again.`);
      } catch (error) {
        onNotice((error as Error).message);
      }
    }
  }

  /** @returns null when ready, else the reason; empty when the process exited without one */
  #outcome(child: ChildProcess, onNotice: (sentence: string) => void): Promise<string | null> {
    const { name } = this.#options;
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => resolve(`The ${name} did not start within ${READY_TIMEOUT_MS / 1000} seconds.`),
        READY_TIMEOUT_MS,
      );
      const settleStart = (outcome: string | null): void => {
        clearTimeout(timer);
        resolve(outcome);
      };
      child.on('message', (raw) => {
        const message = parentMessage.safeParse(raw).data;
        if (message === undefined) return;
        if ('failed' in message) return settleStart(message.failed);
        if (message.notice !== undefined) onNotice(message.notice);
        settleStart(null);
      });
      // 'close' follows the last line of output; 'exit' may precede it.
      child.once('close', () => settleStart(''));
      child.once('error', (error) => settleStart(`The ${name} cannot be started: ${error.message}`));
    });
  }
}

async function end({ child, ended }: Run, force: AbortSignal): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  const patience = AbortSignal.any([force, AbortSignal.timeout(STOP_TIMEOUT_MS)]);
  const kill = (): boolean => child.kill('SIGKILL');
  if (patience.aborted) kill();
  patience.addEventListener('abort', kill);
  await ended;
  patience.removeEventListener('abort', kill);
}

/** Resolves when the process has exited and its last line was read or the wait is over. */
function waitForEnd(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('close', () => resolve());
    child.once('exit', () => setTimeout(resolve, LAST_LINES_MS).unref());
  });
}

function describeEnd(child: ChildProcess | undefined): string {
  return child?.signalCode ?? `exit code ${child?.exitCode ?? 'unknown'}`;
}
