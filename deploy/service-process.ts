/** API or supervisor as a child process: started, watched, started again, stopped. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentMessage } from '../service/lifecycle/parent.ts';
import { backoff, LONG_RUN_MS } from './backoff.ts';
import type { HeldSocket } from './listening-sockets.ts';

/** A process that says nothing for so long will not serve any more, milliseconds. */
const READY_TIMEOUT_MS = 120_000;
/** Last lines are read by then, even where something the process left behind holds its output open, milliseconds. */
const LAST_LINES_MS = 1_000;
/** Longest honest drain: calls under way and one chain of hooks; then it is ended by force, milliseconds. */
const STOP_TIMEOUT_MS = 30_000;

interface ServiceOptions {
  /** For the user, such as `API`. */
  readonly name: string;
  /** Script that node runs. */
  readonly main: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Handed to every process of the service, which then listens on them. */
  readonly sockets?: readonly HeldSocket[];
  /** A line the process wrote: pino's JSON, or plain text. */
  onLine(line: string): void;
  /** One sentence about what happened to the process. */
  onNotice(sentence: string): void;
}

/** One run of the service. */
interface Run {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
}

/** Made, then started, then stopped, once each. `stop` may come while it still starts. */
export class ServiceProcess {
  readonly #options: ServiceOptions;
  readonly #stopping = new AbortController();
  /** Two while one takes over from the other. */
  readonly #runs = new Set<Run>();
  #current: Run | undefined;
  #watch: Promise<void> = Promise.resolve();
  #replacing: Promise<void> = Promise.resolve();

  constructor(options: ServiceOptions) {
    this.#options = options;
  }

  /**
   * Starts the process and resolves when it serves. From then on it is started again whenever it ends by itself.
   *
   * @throws with one sentence when it does not come up this first time
   */
  async start(): Promise<void> {
    this.#current = await this.#launch();
    this.#watch = this.#restartForever();
  }

  /**
   * Starts a successor beside the process and ends that one when the successor serves. With its sockets held by the
   * parent nobody is refused in between.
   *
   * @throws with one sentence when the successor does not come up; then everything stays as it was
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

  /** Drains and ends it, by force when it takes too long or `force` is aborted. It does not come back. */
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
    // Detached: Ctrl-C in a terminal goes to the whole process group, and the order of stopping is ours to decide.
    const child = spawn(process.execPath, [main], {
      env: { ...env, ...handed },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', ...sockets.map((socket) => socket.fd), 'ipc'],
    });
    const run = { child, ended: endOf(child) };
    this.#runs.add(run);
    void run.ended.then(() => this.#runs.delete(run));
    let reason = '';
    for (const input of [child.stdout, child.stderr]) {
      if (input === null) continue;
      createInterface({ input }).on('line', (line) => {
        // A crash writes its stack and the version of node below the line that says what happened.
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
      // Its successor serves.
      if (watched !== this.#current) continue;
      failures = Date.now() - began > LONG_RUN_MS ? 0 : failures + 1;
      const delay = backoff(failures);
      onNotice(`The ${name} ended (${describeEnd(watched?.child)}); starting it again in ${delay} ms.`);
      await sleep(delay, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        this.#current = await this.#launch();
        onNotice(`The ${name} serves again.`);
      } catch (error) {
        onNotice((error as Error).message);
      }
    }
  }

  /** @returns null when ready, else why not; empty when it ended without saying */
  #outcome(child: ChildProcess, onNotice: (sentence: string) => void): Promise<string | null> {
    const { name } = this.#options;
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => resolve(`The ${name} did not start within ${READY_TIMEOUT_MS / 1000} seconds.`),
        READY_TIMEOUT_MS,
      );
      const done = (outcome: string | null): void => {
        clearTimeout(timer);
        resolve(outcome);
      };
      child.on('message', (raw) => {
        const message = parentMessage.safeParse(raw).data;
        if (message === undefined) return;
        if ('failed' in message) return done(message.failed);
        if (message.notice !== undefined) onNotice(message.notice);
        done(null);
      });
      // 'close' comes after the last line was read, 'exit' perhaps before.
      child.once('close', () => done(''));
      child.once('error', (error) => done(`The ${name} cannot be started: ${error.message}`));
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

/** Resolves when the process is gone and, as a rule, its last line was passed on. */
function endOf(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('close', () => resolve());
    child.once('exit', () => setTimeout(resolve, LAST_LINES_MS).unref());
  });
}

function describeEnd(child: ChildProcess | undefined): string {
  return child?.signalCode ?? `exit code ${child?.exitCode ?? 'unknown'}`;
}
