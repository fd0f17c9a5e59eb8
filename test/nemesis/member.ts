/** A process of the product, with a folder and links to the database of its own: as on a machine of its own. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { readBareEnvironment } from '../fixtures/bare-environment.ts';
import type { Gate } from '../storm/database-gate.ts';

const MAINS = {
  api: fileURLToPath(new URL('../../api/main.ts', import.meta.url)),
  supervisor: fileURLToPath(new URL('../../supervisor/main.ts', import.meta.url)),
};
export type MemberKind = keyof typeof MAINS;
/** A process that could not start, because the database is away, starts again after this time. Milliseconds. */
const RESTART_MS = 1_000;
/** Interval at which a load balancer asks supervisors whether they are ready, and how long it waits. Milliseconds. */
const CHECK_MS = { interval: 1_000, timeout: 2_000 };
/** Between a process that is not ready any more and the load balancer that sees it. Milliseconds. */
const NOTICE_MS = 1_000;

interface MemberOptions {
  readonly kind: MemberKind;
  readonly name: string;
  /** Its `DATA_DIR` and its log are in there. */
  readonly folder: string;
  readonly url: string;
  /** Where it says whether it is ready. Null: it takes requests at any time, as APIs do without the database. */
  readonly readyUrl: string | null;
  readonly env: Readonly<Record<string, string>>;
  readonly gates: readonly Gate[];
  /** Whether the process connects to the database through pgbouncer. */
  readonly isPooled: boolean;
  /** Called when it ended and was not killed. */
  onUnexpectedEnd(sentence: string): void;
}

export class Member {
  readonly kind: MemberKind;
  readonly name: string;
  /** At which agents' runtimes or vendors reach it. */
  readonly url: string;
  readonly isPooled: boolean;
  readonly logFile: string;
  readonly #options: MemberOptions;
  #child: ChildProcess | null = null;
  #expected = new WeakSet<ChildProcess>();
  #isClosing = false;
  /** Whether a load balancer chooses it for new calls. */
  isReady = false;
  /** Aborts when calls through it have no answer to expect. */
  #gone = new AbortController();

  constructor(options: MemberOptions) {
    this.#options = options;
    this.kind = options.kind;
    this.name = options.name;
    this.url = options.url;
    this.isPooled = options.isPooled;
    this.logFile = join(options.folder, `${options.name}.log`);
    this.#gone.abort();
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }
  /** Aborted while calls do not reach it. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Starts it for the first time. @throws Error with the reason why it cannot start */
  async startFirst(): Promise<void> {
    const failure = await this.#launch();
    if (failure !== null) throw new Error(`${this.name} does not start: ${failure}`);
  }

  /** Starts it and waits until it serves; again where it cannot start, as a service manager does. */
  async start(): Promise<void> {
    while (!this.#isClosing) {
      const failure = await this.#launch();
      if (failure === null) return;
      await appendFile(this.logFile, `${failure}\n`);
      await sleep(RESTART_MS);
    }
  }

  async kill(): Promise<void> {
    this.setReachable(false);
    await this.#end('SIGKILL');
  }

  /** SIGTERM. Resolves when it has ended. A load balancer notices some time after. */
  async drain(): Promise<void> {
    const noticed = sleep(NOTICE_MS).then(() => {
      this.isReady = false;
    });
    await Promise.all([this.#end('SIGTERM'), noticed]);
  }

  /** Lets nothing of it run. Its plugin processes go on, and wait for it. */
  suspend(): void {
    this.setReachable(false);
    this.#child?.kill('SIGSTOP');
  }
  resume(): void {
    this.#child?.kill('SIGCONT');
    this.setReachable(true);
  }

  /** Lets no byte pass between it and the database. Nothing breaks off. */
  cut(): void {
    for (const gate of this.#options.gates) gate.hold();
  }
  mend(): void {
    for (const gate of this.#options.gates) gate.open();
  }

  /** Whether calls reach it. Those under way have no answer to expect when they no longer do. */
  setReachable(isReachable: boolean): void {
    this.isReady = isReachable;
    if (!isReachable) this.#gone.abort();
    else if (this.#gone.signal.aborted) this.#gone = new AbortController();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.kill();
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    this.#expected.add(child);
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  /** A supervisor without its database is not chosen, though it can be reached. */
  async #checkReadiness(child: ChildProcess): Promise<void> {
    const { readyUrl } = this.#options;
    while (readyUrl !== null && child.exitCode === null && child.signalCode === null) {
      const answer = await fetch(readyUrl, { signal: AbortSignal.timeout(CHECK_MS.timeout) }).catch(() => null);
      await answer?.body?.cancel();
      this.isReady = answer?.ok === true && this.#child === child && !this.gone.aborted;
      await sleep(CHECK_MS.interval, undefined, { ref: false });
    }
  }

  /** @returns null: it serves; else why it does not */
  async #launch(): Promise<string | null> {
    const { kind, name, folder, env } = this.#options;
    await mkdir(folder, { recursive: true });
    const log = await open(this.logFile, 'a');
    const child = fork(MAINS[kind], [], {
      execArgv: [],
      env: { ...readBareEnvironment(), DATA_DIR: join(folder, name), ...env },
      stdio: ['ignore', log.fd, log.fd, 'ipc'],
    });
    await log.close();
    this.#child = child;
    const { promise, resolve } = Promise.withResolvers<string | null>();
    child.on('message', (message: { ready?: boolean; failed?: string }) => {
      if (message.failed !== undefined) {
        this.#expected.add(child);
        resolve(message.failed);
      } else if (message.ready === true) {
        this.setReachable(true);
        void this.#checkReadiness(child);
        resolve(null);
      }
    });
    child.once('exit', (code, signal) => {
      resolve(`it ended by ${signal ?? code}`);
      if (this.#child === child) this.setReachable(false);
      if (!this.#expected.has(child)) this.#options.onUnexpectedEnd(`${name} ended by ${signal ?? `code ${code}`}`);
    });
    return promise;
  }
}
