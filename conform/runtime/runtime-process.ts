/**
 * The runtime under test as a process: users' messages go to it as lines of JSON on standard input, and what the users would
 * see comes back as lines of JSON on standard output.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Mismatch } from '../expect.ts';

export interface UserMessage {
  readonly session: string;
  readonly id: string;
  readonly from: string;
  readonly text: string;
  readonly trigger: 'user' | 'channel' | 'schedule';
}
export interface End {
  readonly kind: 'done' | 'failed';
  /** The text for the user after a failure. */
  readonly reason: string;
}
export interface Answer {
  /** The text that the user has seen. */
  readonly text: string;
  readonly end: End;
}
interface Line {
  readonly id?: unknown;
  readonly text?: unknown;
  readonly end?: unknown;
  readonly reason?: unknown;
}

const WAIT_TIMEOUT_MS = 20_000;
/** How long a runtime may take to end after its input has ended, milliseconds. */
const STOP_MS = 2_000;
const STDERR_SHOWN_CHARS = 600;
/** Most scenarios share a process, so those that are played beside the one that ends it break with it. */
const SHARED_PROCESS = 'If more than one scenario says so, play each alone with --only.';
/** Windows has no process groups. */
const HAS_GROUPS = process.platform !== 'win32';

/** One message of a user, and what the user has seen of the answer to it. */
export class Exchange {
  readonly message: UserMessage;
  /** The text that the user has seen. */
  shown = '';
  /** The part of it that came after the end. */
  lateText = '';
  readonly #end = Promise.withResolvers<End>();
  readonly #onChange = new Set<() => void>();
  /** Why the user sees nothing more. */
  #ended: End | Mismatch | null = null;

  constructor(message: UserMessage) {
    this.message = message;
    // A scenario that kills the runtime does not wait for the end.
    this.#end.promise.catch(() => undefined);
  }

  /** Waits for the end. @throws Mismatch when it does not come */
  async waitForAnswer(): Promise<Answer> {
    const end = await this.end();
    return { text: this.shown, end };
  }

  /** Waits for the end. @throws Mismatch when it does not come, and when the runtime ends before */
  end(): Promise<End> {
    return within(`the end of the answer to “${this.message.text}”`, this.#end.promise);
  }

  /** Waits until the user sees a text. @throws Mismatch when the answer ends before */
  async waitUntilShown(text: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const check = (): void => {
      if (this.shown.includes(text)) resolve();
      else if (this.#ended instanceof Mismatch) reject(this.#ended);
      else if (this.#ended !== null) reject(new Mismatch(`the answer ended without “${text}”: “${this.shown}”`));
    };
    this.#onChange.add(check);
    check();
    await within(`“${text}” in the answer`, promise).finally(() => this.#onChange.delete(check));
  }

  applyLine({ text, end, reason }: Line): void {
    if (typeof text === 'string') {
      this.shown += text;
      if (this.#ended !== null) this.lateText += text;
    }
    if (this.#ended === null && (end === 'done' || end === 'failed')) {
      const ended: End = { kind: end, reason: typeof reason === 'string' ? reason : '' };
      this.#ended = ended;
      this.#end.resolve(ended);
    }
    for (const check of this.#onChange) check();
  }

  /** The runtime ended. @param reason what is known of its end */
  breakOff(reason: string): void {
    if (this.#ended === null) {
      this.#ended = new Mismatch(
        `the runtime ended before its answer to “${this.message.text}”. ${SHARED_PROCESS} ${reason}`,
      );
      this.#end.reject(this.#ended);
    }
    for (const check of this.#onChange) check();
  }
}

/** Functions that kill the running runtimes. These run outside this process's group, so Ctrl-C in the terminal does not reach them. */
const running = new Set<() => void>();
process.once('exit', () => {
  for (const kill of running) kill();
});

export class RuntimeProcess {
  #stderr = '';
  /** How it ended. Null: it runs. */
  #ending: string | null = null;
  readonly #child: ChildProcess;
  readonly #exchanges: Exchange[] = [];
  readonly #killAll = (): void => {
    const { pid } = this.#child;
    if (HAS_GROUPS && pid !== undefined) killGroup(pid);
    else this.#child.kill('SIGKILL');
  };

  constructor(command: readonly string[], env: Readonly<Record<string, string | undefined>>) {
    const [program = '', ...args] = command;
    this.#child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe'], detached: HAS_GROUPS });
    running.add(this.#killAll);
    this.#child.stdin?.on('error', () => undefined);
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_SHOWN_CHARS);
    });
    if (this.#child.stdout) createInterface({ input: this.#child.stdout }).on('line', (line) => this.#readLine(line));
    this.#child.once('error', (error) => this.#endAll(`It did not start: ${error.message}`));
    this.#child.once('close', (code, signal) => this.#endAll(`It ended with ${signal ?? code}. ${this.#stderr}`));
  }

  get isOver(): boolean {
    return this.#ending !== null;
  }

  /** Gives the runtime a message of a user. */
  send(message: UserMessage): Exchange {
    const exchange = new Exchange(message);
    this.#exchanges.push(exchange);
    if (this.#ending === null) this.#write({ type: 'message', ...message });
    else exchange.breakOff(this.#ending);
    return exchange;
  }

  /** The user stops the answer. */
  abort({ message }: Exchange): void {
    this.#write({ type: 'abort', id: message.id });
  }

  /** Kills it with the processes that it has started: the command may be a program that starts the runtime, such as npm. */
  async kill(): Promise<void> {
    if (this.isOver) return;
    const closed = once(this.#child, 'close');
    this.#killAll();
    await closed;
  }

  /** Ends its input, and kills it when it does not end. */
  async stop(): Promise<void> {
    if (this.isOver) return;
    this.#child.stdin?.end();
    await Promise.race([once(this.#child, 'close'), sleep(STOP_MS, undefined, { ref: false })]);
    await this.kill();
  }

  #write(line: object): void {
    this.#child.stdin?.write(`${JSON.stringify(line)}\n`);
  }

  /** Other lines are the runtime's own. */
  #readLine(text: string): void {
    if (!text.startsWith('{')) return;
    let line: Line;
    try {
      line = JSON.parse(text);
    } catch {
      return;
    }
    this.#exchanges.findLast(({ message }) => message.id === line.id)?.applyLine(line);
  }

  #endAll(reason: string): void {
    this.#ending ??= reason;
    running.delete(this.#killAll);
    for (const exchange of this.#exchanges) exchange.breakOff(reason);
  }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    // They have ended, and their pipes are about to close. macOS says EPERM then.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ESRCH' && code !== 'EPERM') throw error;
  }
}

/** @throws Mismatch when it takes too long */
export async function within<T>(what: string, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Mismatch(`${what} did not come within ${WAIT_TIMEOUT_MS / 1000} s`)),
    WAIT_TIMEOUT_MS,
  );
  // A check that was interrupted does not wait for what its scenarios still expect.
  timer.unref();
  return Promise.race([work, promise]).finally(() => clearTimeout(timer));
}
