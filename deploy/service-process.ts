/** Runs the API or the supervisor as a child process, restarts it after a crash, and replaces it during an upgrade. */
import { type ChildProcess, spawn } from 'node:child_process';
import { addAbortListener } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { splitLines } from '../sdk/cli/line-splitter.ts';
import {
  type ChildMessage,
  HANDOVER_TIMEOUT_MS,
  isWeaker,
  type ParentMessage,
  parentMessage,
  type SandboxReport,
  STOP_TIMEOUT_MS,
  SUCCESSOR_VARIABLE,
} from '../service/lifecycle/parent.ts';
import { computeBackoff, LONG_RUN_MS } from './backoff.ts';
import { isErrorLine } from './error-lines.ts';
import type { HeldSocket } from './listening-sockets.ts';

/** A process that is not ready within this time has failed to start. Milliseconds. */
const READY_TIMEOUT_MS = 120_000;
/** How long the end of the output is awaited: a surviving child of the process may hold the pipe open. Milliseconds. */
const LAST_LINES_MS = 1_000;

/**
 * By default, V8 lets new objects fill a semi-space of 32 MB before it collects them, and on a busy machine each such collection
 * blocks the event loop for 10 to 30 ms. With 4 MB it blocks for 2 ms, and the process keeps 100 MB less after a peak. The image
 * sets the same in `NODE_OPTIONS`.
 */
export const HEAP_FLAGS = ['--max-semi-space-size=4'];

/**
 * By default, glibc keeps freed memory in up to eight arenas per processor. When the first large buffer is freed, glibc raises its
 * threshold and takes large buffers from the arenas, too: 40 to 70 MB stayed after a peak. With two arenas and fixed thresholds
 * glibc returns that memory. An arena returns only the memory above everything that is in use, so the 64 KiB chunks of bodies must
 * not be in one: messages of 900 kB left 40 MB. Buffers above 32 KiB are mapped separately, which costs no measurable time. The
 * image sets the same; other C libraries ignore it.
 */
export const MALLOC_ENVIRONMENT: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '32768',
  MALLOC_TRIM_THRESHOLD_: '131072',
};

interface ServiceOptions {
  /** Name in messages to the user, such as `API`. */
  readonly name: string;
  /** Path of the script. */
  readonly main: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Every process of the service inherits these sockets and listens on them. */
  readonly sockets?: readonly HeldSocket[];
  /** Called before the start and each restart. @throws Error with one sentence if the process must not be started now */
  checkStart?(): Promise<void>;
  /** Called for each line of output: pino's JSON, or plain text. */
  onLine(line: string): void;
  /** Called with one sentence about the process. */
  onNotice(sentence: string): void;
}

/** One process of the service. */
interface Run {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  /** The line of its output that best explains why it ended. */
  lastError: string;
  /** What it last reported. */
  sandbox: SandboxReport;
}

/** A process that is ready to replace the running one. */
export interface Successor {
  /** Makes the successor accept connections, beside the old process. @throws Error with one sentence if it cannot */
  serve(): Promise<void>;
  /** Drains and ends the old process. */
  takeOver(): Promise<void>;
  /** Drains and ends the successor. The old process continues. */
  withdraw(): Promise<void>;
}

/** Can be started and stopped once. `stop` may be called during the start. */
export class ServiceProcess {
  readonly #options: ServiceOptions;
  readonly #stopping = new AbortController();
  /** All processes of the service: two while one replaces the other. */
  readonly #runs = new Set<Run>();
  #current: Run | undefined;
  /** Resolves when no process is restarted any more. */
  #restartsEnded: Promise<void> = Promise.resolve();
  /** Resolves when no successor waits for `takeOver` or `withdraw`. */
  #replacementEnded: Promise<void> = Promise.resolve();

  constructor(options: ServiceOptions) {
    this.#options = options;
  }

  /**
   * Starts the process and resolves when it is ready. From then on, restarts it whenever it exits.
   *
   * @throws Error with one sentence when the first start fails
   */
  async start(): Promise<void> {
    this.#current = await this.#launch();
    this.#restartsEnded = this.#restartForever();
  }

  /**
   * Starts a second process, with the code that is on disk now, and resolves when its `/readyz` is 200. It accepts no connections
   * before `serve`.
   *
   * @param readyTimeoutMs how long `/readyz` may take to become 200 after its first answer
   * @throws Error with one sentence when it does not start, is not ready in time, or lets fewer plugins run than the old process
   */
  async startSuccessor(readyTimeoutMs: number): Promise<Successor> {
    if (this.#stopping.signal.aborted) throw this.#createStoppingError();
    const replacement = Promise.withResolvers<void>();
    this.#replacementEnded = replacement.promise;
    try {
      const run = await this.#spawn({ [SUCCESSOR_VARIABLE]: 'yes' });
      await this.#killOnFailure(run, waitForReadiness(this.#options.name, run, readyTimeoutMs));
      await this.#killOnFailure(run, Promise.resolve(this.#describeWeakerSandbox(run)));
      return {
        serve: () => {
          // If the process has ended, the send fails and `#waitForAnnouncement` reports the end.
          run.child.send({ serve: true } satisfies ChildMessage, () => undefined);
          return this.#killOnFailure(run, this.#waitForAnnouncement(run));
        },
        takeOver: async () => {
          const old = this.#current;
          this.#current = run;
          replacement.resolve();
          if (old) await endProcess(old, HANDOVER_TIMEOUT_MS);
        },
        withdraw: async () => {
          await endProcess(run, HANDOVER_TIMEOUT_MS);
          replacement.resolve();
        },
      };
    } catch (error) {
      replacement.resolve();
      throw error;
    }
  }

  /** Drains and stops all processes of the service. Ends them by SIGKILL after a timeout or when `force` aborts. */
  async stop(force: AbortSignal): Promise<void> {
    this.#stopping.abort();
    await Promise.all([...this.#runs].map((run) => endAlone(run, force)));
    await this.#replacementEnded;
    await this.#restartsEnded;
  }

  #createStoppingError(): Error {
    return new Error(`The ${this.#options.name} is stopping.`);
  }

  async #launch(): Promise<Run> {
    await this.#options.checkStart?.();
    // `stop` found no process to end meanwhile, and waits until none is started any more.
    if (this.#stopping.signal.aborted) throw this.#createStoppingError();
    const run = await this.#spawn({});
    await this.#killOnFailure(run, this.#waitForAnnouncement(run));
    return run;
  }

  async #spawn(extra: Readonly<Record<string, string>>): Promise<Run> {
    const { main, env, sockets = [], onLine } = this.#options;
    const names = sockets.map((socket) => socket.name).join(':');
    const socketVariables = sockets.length === 0 ? {} : { LISTEN_FDS: String(sockets.length), LISTEN_FDNAMES: names };
    // Detached, because Ctrl-C in a terminal signals the whole process group, and the parent must control the order in which
    // processes stop.
    const child = spawn(process.execPath, [...HEAP_FLAGS, main], {
      env: { ...MALLOC_ENVIRONMENT, ...env, ...socketVariables, ...extra },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', ...sockets.map((socket) => socket.fd), 'ipc'],
    });
    const run: Run = { child, ended: waitForEnd(child), lastError: '', sandbox: {} };
    this.#runs.add(run);
    void run.ended.then(() => this.#runs.delete(run));
    for (const input of [child.stdout, child.stderr]) {
      if (input === null) continue;
      splitLines(input, (line) => {
        // A crash prints its stack and the Node version below the line with the error.
        const isFirst = run.lastError === '' && line.trim() !== '' && !line.startsWith('{');
        if (isErrorLine(line) || isFirst) run.lastError = line;
        onLine(line);
      });
    }
    return run;
  }

  /** Kills the process if its start failed. @throws Error with the reason, after the process has ended */
  async #killOnFailure(run: Run, outcome: Promise<string | null>): Promise<void> {
    const failure = await outcome;
    if (failure === null) return;
    run.child.kill('SIGKILL');
    await run.ended;
    const reason = run.lastError === '' ? describeEnd(run.child) : run.lastError;
    throw new Error(failure === '' ? `The ${this.#options.name} ended while starting: ${reason}` : failure);
  }

  async #restartForever(): Promise<void> {
    const { name, onNotice } = this.#options;
    const { signal } = this.#stopping;
    // The process whose replacement did not start.
    let unreplaced: Run | undefined;
    for (let failures = 0; ; ) {
      const began = performance.now();
      const watched = this.#current;
      await watched?.ended;
      await this.#replacementEnded;
      if (signal.aborted) return;
      // A successor has replaced the process.
      if (watched !== this.#current) continue;
      failures = performance.now() - began > LONG_RUN_MS ? 0 : failures + 1;
      const delay = computeBackoff(failures);
      onNotice(
        watched === unreplaced
          ? `The ${name} did not start. Trying again in ${delay} ms.`
          : `The ${name} ended (${describeEnd(watched?.child)}). Restarting it in ${delay} ms.`,
      );
      await sleep(delay, undefined, { signal }).catch(() => undefined);
      await this.#replacementEnded;
      if (signal.aborted) return;
      // A successor has replaced it meanwhile, here or while its replacement starts.
      if (watched !== this.#current) continue;
      try {
        const run = await this.#launch();
        if (watched !== this.#current) {
          await endProcess(run, HANDOVER_TIMEOUT_MS);
          continue;
        }
        this.#current = run;
        onNotice(`The ${name} is running again.`);
      } catch (error) {
        unreplaced = watched;
        onNotice((error as Error).message);
      }
    }
  }

  /** `/readyz` is 200 in a weaker sandbox, too: a machine without bubblewrap runs plugins of operators. */
  #describeWeakerSandbox({ sandbox }: Run): string | null {
    if (!isWeaker(sandbox, this.#current?.sandbox ?? {})) return null;
    return `The sandbox of the new ${this.#options.name} is weaker than the old one's. ${sandbox.notice}`;
  }

  #waitForAnnouncement(run: Run): Promise<string | null> {
    const { name, onNotice } = this.#options;
    return waitForOutcome(name, run, createStartLimit(name), (message, report) => {
      if (!('ready' in message)) return;
      if (message.notice !== undefined) onNotice(message.notice);
      if (message.notReady) onNotice(`The ${name} is not ready: ${message.notReady}.`);
      report(null);
    });
  }
}

interface TimeLimit {
  readonly timeoutMs: number;
  describeTimeout(): string;
}

const createStartLimit = (name: string): TimeLimit => ({
  timeoutMs: READY_TIMEOUT_MS,
  describeTimeout: () => `The ${name} did not start within ${READY_TIMEOUT_MS / 1_000} seconds.`,
});

/** Waits until a successor's `/readyz` is 200. */
async function waitForReadiness(name: string, run: Run, readyTimeoutMs: number): Promise<string | null> {
  let reason: string | null = null;
  const failure = await waitForOutcome(name, run, createStartLimit(name), (message, report) => {
    if (!('prepared' in message)) return;
    reason = message.notReady;
    report(null);
  });
  if (failure !== null || reason === null) return failure;
  const describeTimeout = (): string =>
    `The new ${name} was not ready within ${readyTimeoutMs / 1000} seconds (READY_SECONDS): ${reason}.`;
  return waitForOutcome(name, run, { timeoutMs: readyTimeoutMs, describeTimeout }, (message, report) => {
    if (!('prepared' in message)) return;
    reason = message.notReady;
    if (reason === null) report(null);
  });
}

/** Ends the wait for an outcome. Null: the start succeeded. A text: why it failed. */
type ReportOutcome = (outcome: string | null) => void;

/** @returns null if `onMessage` reports success; otherwise why the start failed, '' if the process exited without a reason */
function waitForOutcome(
  name: string,
  run: Run,
  limit: TimeLimit,
  onMessage: (message: ParentMessage, report: ReportOutcome) => void,
): Promise<string | null> {
  const { child } = run;
  return new Promise((resolve) => {
    const timer = setTimeout(() => report(limit.describeTimeout()), limit.timeoutMs);
    const report: ReportOutcome = (outcome) => {
      clearTimeout(timer);
      child.off('message', read);
      resolve(outcome);
    };
    const read = (raw: unknown): void => {
      const message = parentMessage.safeParse(raw).data;
      if (message === undefined) return;
      if ('failed' in message) report(message.failed);
      else {
        run.sandbox = message;
        onMessage(message, report);
      }
    };
    child.on('message', read);
    // 'close' follows the last line of output; 'exit' may precede it.
    child.once('close', () => report(''));
    child.once('error', (error) => report(`The ${name} cannot be started: ${error.message}`));
    if (child.exitCode !== null || child.signalCode !== null) report('');
  });
}

/** Ends a process that no other one replaces, so that it need not wait for a handover. */
function endAlone(run: Run, force: AbortSignal): Promise<void> {
  if (run.child.connected) run.child.send({ alone: true } satisfies ChildMessage, () => undefined);
  return endProcess(run, STOP_TIMEOUT_MS, force);
}

async function endProcess({ child, ended }: Run, timeoutMs: number, force?: AbortSignal): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  const limits = [AbortSignal.timeout(timeoutMs), ...(force === undefined ? [] : [force])];
  const limit = AbortSignal.any(limits);
  using _listening = addAbortListener(limit, () => child.kill('SIGKILL'));
  await ended;
}

/** Resolves when the process has exited, and its last line was read or `LAST_LINES_MS` have passed. */
function waitForEnd(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('close', () => resolve());
    child.once('exit', () => setTimeout(resolve, LAST_LINES_MS).unref());
  });
}

function describeEnd(child: ChildProcess | undefined): string {
  return child?.signalCode ?? `exit code ${child?.exitCode ?? 'unknown'}`;
}
