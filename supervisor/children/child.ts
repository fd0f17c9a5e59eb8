/** One child as the fleet sees it: spawned, ready, loaded, draining, dead; its calls and its end. */
import type { Duplex } from 'node:stream';
import { limits } from '../../sdk/contract/limits.ts';
import { control, type LogLevel, type Registrations, registrations, type Target } from '../../sdk/contract/protocol.ts';
import type { TokenBucket } from '../../service/timing/token-bucket.ts';
import type { ProcessorNeed } from '../jail/boxed-process.ts';
import type { Jail, JailedProcess } from '../jail/jail.ts';
import type { Pipes } from '../jail/spawner.ts';
import { type CallBounds, ChildCalls, type InvokeOptions, type Outcome } from './child-calls.ts';
import { ChildConnection } from './child-connection.ts';
import { type ChildEnd, describeEnd } from './child-end.ts';
import { ChildError, HostCallRefusal, timeoutOf } from './child-errors.ts';
import { quote } from './child-message.ts';
import type { ReadBounds } from './child-message-reader.ts';
import { keepTail, type Tail } from './stderr-tail.ts';

export type ChildState = 'spawning' | 'ready' | 'loaded' | 'draining' | 'dead';

/** What the child asks of its host. The invocation is null for work that no running handler waits for. */
export interface HostCall {
  readonly member: string;
  readonly args: readonly unknown[];
  readonly invocationId: string | null;
}
export interface ChildLogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly data?: unknown;
  readonly invocationId: string | null;
  readonly truncated: boolean;
}
export interface ChildHandlers {
  /** Answers a host call. Reject with `HostCallRefusal` for what the plugin may read; anything else is told as `internal`. */
  onHostCall(call: HostCall): Promise<unknown>;
  onLog(line: ChildLogLine): void;
  /** Once, when every process of the jail is gone. */
  onExit(end: ChildEnd): void;
}
export interface Bundle {
  readonly bundle: string;
  /** How stack traces name the bundle. */
  readonly sourceName: string;
  /** Host calls that exist for it, such as `llm.complete`. */
  readonly members: readonly string[];
  readonly settings: Readonly<Record<string, string>>;
  readonly secretNames: readonly string[];
  /** What its version registered at publish; null at introspection. */
  readonly expected: Registrations | null;
}
export interface Loaded {
  readonly registrations: Registrations;
  /** Stack of the assignment of every name, known or not. */
  readonly places: Readonly<Record<string, string>>;
}

/** Operators' bounds of one child. */
export type ChildBounds = CallBounds & ReadBounds;
const defaultBounds: ChildBounds = limits;

/** From being asked to go to SIGKILL, milliseconds: a child that listens takes ten on a quiet machine. */
const GO_WITHIN_MS = 250;
/** From spawn to `ready`. It takes 60 ms; a machine that needs 10 s is in trouble anyway. */
const READY_WITHIN_MS = 10_000;
/** The same for a child that lets all other processes go first: a busy machine may give it nothing for a while. */
const YIELDING_READY_WITHIN_MS = 60_000;
/** Of the name of a malformed registration, what its error shows. Characters. */
const NAME_MAX_CHARS = 100;

/** What there is of a child that runs. */
interface Line {
  readonly connection: ChildConnection;
  readonly calls: ChildCalls;
  readonly inspector: Duplex | null;
}

/** Starts a child. It is of use after `ready` and `load`. */
export function startChild(jail: Jail, handlers: ChildHandlers, bounds = defaultBounds): Child {
  return new Child(jail.spawn(), handlers, bounds);
}

export class Child {
  /** Rejects with `ChildError` where the child ends first. */
  readonly ready: Promise<void>;
  /** Resolves when the child is certainly gone. */
  readonly ended: Promise<ChildEnd>;
  readonly #stderr: Tail;
  readonly #jailed: JailedProcess;
  readonly #handlers: ChildHandlers;
  readonly #said = Promise.withResolvers<void>();
  readonly #startedAt = performance.now();
  #startLimit: NodeJS.Timeout | undefined;
  #yields = false;
  /** Null until its pipes are there. */
  #line: Line | null = null;
  #state: ChildState = 'spawning';
  #why: string | null = null;
  /** It was asked to go and has not gone yet. */
  #going = false;

  /** Takes over a spawned process; see `startChild`. */
  constructor(jailed: JailedProcess, handlers: ChildHandlers, bounds = defaultBounds) {
    this.#jailed = jailed;
    this.#handlers = handlers;
    this.#stderr = keepTail(jailed.pipes.then(({ stderr }) => stderr));
    jailed.pipes.then(
      (pipes) => this.#connect(pipes, bounds),
      () => undefined,
    );
    this.ended = this.#end();
    this.ready = this.#become();
    // Who asks for `ready` is told; nobody has to ask.
    this.ready.catch(() => undefined);
  }

  get state(): ChildState {
    return this.#state;
  }

  /** Process id on the host; 0 before `ready` and the same one after the end. */
  get pid(): number {
    return this.#jailed.pid;
  }

  /** Evaluates a bundle, once a child. Rejects with `ChildError`; over the budget, milliseconds, the child is killed. */
  async load(bundle: Bundle, budgetMs: number = limits.loadBudgetMs): Promise<Loaded> {
    await this.ready;
    if (this.#state !== 'ready') throw new ChildError('dead', this.#why ?? `the child is ${this.#state}`);
    const timeout = timeoutOf('loading', budgetMs);
    const timer = setTimeout(() => this.kill(timeout.message), budgetMs);
    try {
      const answer = await this.#line?.connection.request('load', bundle);
      const result = control.load.result.safeParse(answer);
      if (!result.success) throw refusedLoad(answer);
      if (result.data.outcome === 'failed') {
        throw new ChildError('load', result.data.message, { pluginStack: result.data.stack });
      }
      this.#state = 'loaded';
      return result.data;
    } catch (error) {
      throw this.#why === timeout.message ? timeout : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** From now on its output is charged to this bucket, which it may share with the children that come after it. */
  chargeOutputTo(bucket: TokenBucket): void {
    this.#line?.connection.chargeOutputTo(bucket);
  }

  /** New settings or grants, for the calls after it. */
  configure(settings: Readonly<Record<string, string>>, members: readonly string[]): void {
    this.#line?.connection.notify('configure', { settings, members });
  }

  /** Runs a handler. Resolves with what the plugin's code did, rejects with `ChildError` for everything else. */
  invoke(target: Target, context: Readonly<Record<string, unknown>>, options: InvokeOptions): Promise<Outcome> {
    if (this.#state !== 'loaded' || !this.#line) {
      return Promise.reject(new ChildError('dead', this.#why ?? `the child is ${this.#state}`));
    }
    return this.#line.calls.run(target, context, options);
  }

  /** Stops and restarts the budget of a running handler; pauses nest. Unknown ids are ignored. */
  pauseDeadline(invocationId: string): void {
    this.#line?.calls.pause(invocationId);
  }

  resumeDeadline(invocationId: string): void {
    this.#line?.calls.resume(invocationId);
  }

  /** Where its inspector speaks; null in all but those that were started to be inspected. */
  get inspector(): Duplex | null {
    return this.#line?.inspector ?? null;
  }

  /** Stops the budgets of all handlers while somebody debugs them, or lets them run on. */
  holdDeadlines(held: boolean): void {
    this.#line?.calls.hold(held);
  }

  /**
   * Takes no new calls, lets running ones finish within the grace, milliseconds, and asks the child to go, before it is
   * killed. Without a grace it is killed at once.
   */
  async stop({ graceMs }: { graceMs: number }): Promise<ChildEnd> {
    if (this.#state === 'loaded') {
      this.#state = 'draining';
      await Promise.race([this.#line?.calls.waitUntilIdle(graceMs), this.ended]);
    }
    if (graceMs === 0 || this.#state === 'dead') return this.kill('it was stopped');
    this.#leave('it was stopped');
    this.#going = true;
    this.#jailed.terminate();
    const killer = setTimeout(() => this.#jailed.kill(), GO_WITHIN_MS);
    return this.ended.finally(() => {
      this.#going = false;
      clearTimeout(killer);
    });
  }

  /** Ends the child now. `why`, one sentence, becomes the reason of its end. */
  kill(why: string): Promise<ChildEnd> {
    // Also where it was asked to go and takes its time.
    if (this.#state !== 'dead' || this.#going) this.#jailed.kill();
    this.#leave(why);
    return this.ended;
  }

  #leave(why: string): void {
    if (this.#state === 'dead') return;
    this.#why ??= why;
    this.#state = 'dead';
    this.#line?.connection.close(new ChildError('dead', this.#why));
  }

  /** The last 8 kB of what the process said on stderr. */
  stderr(): string {
    return this.#stderr.text();
  }

  /** Resident bytes; 0 when it is gone. */
  rss(): number {
    return this.#jailed.rss();
  }

  /** Processor time used until now, milliseconds, in steps of 10; 0 when it is gone. */
  processorMs(): number {
    return this.#jailed.processorMs();
  }

  /** What it had of the processor and waited for; zeros when it is gone. */
  processorNeed(): ProcessorNeed {
    return this.#jailed.processorNeed();
  }

  /** Lets all other processes go first, or takes that back. Without a control group it does nothing. */
  yieldProcessor(yields: boolean): void {
    this.#jailed.yieldProcessor(yields);
    if (yields === this.#yields) return;
    this.#yields = yields;
    if (this.#state === 'spawning') this.#limitStart();
  }

  /** Kills the child unless it becomes ready in time. Starts the time anew. */
  #limitStart(): void {
    const limitMs = this.#yields ? YIELDING_READY_WITHIN_MS : READY_WITHIN_MS;
    clearTimeout(this.#startLimit);
    this.#startLimit = setTimeout(() => this.kill(`it was not ready within ${limitMs} ms`), limitMs);
  }

  #connect({ stdin, stdout, inspector }: Pipes, bounds: ChildBounds): void {
    // Ended before: what it has said meanwhile concerns nobody.
    if (this.#state === 'dead') return;
    const handlers = {
      onRequest: (_method: string, params: unknown) => this.#onHostCall(params),
      onNotification: (method: string, params: unknown) => this.#onNotification(method, params),
      onViolation: (reason: string) => this.#onViolation(reason),
    };
    const connection = new ChildConnection(stdout, stdin, handlers, bounds);
    this.#line = { connection, calls: new ChildCalls(connection, (why) => this.kill(why), bounds), inspector };
  }

  async #become(): Promise<void> {
    this.#limitStart();
    try {
      await Promise.all([this.#said.promise, this.#jailed.confined]);
      if (this.#state === 'spawning') this.#state = 'ready';
    } catch {
      throw new ChildError('dead', (await this.ended).reason);
    } finally {
      clearTimeout(this.#startLimit);
    }
  }

  async #end(): Promise<ChildEnd> {
    const exit = await this.#jailed.exited;
    const ranMs = performance.now() - this.#startedAt;
    await this.#stderr.ended();
    const end = describeEnd(exit, { why: this.#why, stderr: this.stderr(), ranMs });
    const error = new ChildError('dead', end.reason, { interrupted: end.interrupted });
    this.#state = 'dead';
    this.#why ??= end.reason;
    this.#line?.connection.close(error);
    this.#closePipes();
    this.#said.reject(error);
    this.#handlers.onExit(end);
    return end;
  }

  /** What it left unread would hold them open for ever. */
  #closePipes(): void {
    const close = ({ stdin, stdout, stderr, inspector }: Pipes) => {
      for (const pipe of [stdin, stdout, stderr, inspector]) pipe?.destroy();
    };
    this.#jailed.pipes.then(close, () => undefined);
  }

  #onViolation(reason: string): void {
    this.kill(`it broke the protocol: ${reason}`);
  }

  #onNotification(method: string, params: unknown): void {
    const parsed = method === 'ready' ? control.ready.params.safeParse(params) : control.log.params.safeParse(params);
    if (!parsed.success) this.#onViolation(`a malformed notification ${quote(method)}`);
    else if (method === 'ready') this.#said.resolve();
    else this.#handlers.onLog(this.#own(parsed.data as ChildLogLine));
  }

  async #onHostCall(params: unknown): Promise<unknown> {
    const parsed = control.hostCall.params.safeParse(params);
    if (parsed.success) return this.#handlers.onHostCall(this.#own(parsed.data));
    this.#onViolation('a malformed request "hostCall"');
    throw new HostCallRefusal('malformed', 'malformed');
  }

  /** An id that names no running handler of this very child names nothing. */
  #own<T extends { readonly invocationId: string | null }>(message: T): T {
    if (message.invocationId === null || this.#line?.calls.has(message.invocationId)) return message;
    return { ...message, invocationId: null };
  }
}

/** A registration that is no such thing is the author's to read; everything else is a broken child. */
function refusedLoad(answer: unknown): ChildError {
  const { registrations: given, places } = (answer ?? {}) as { registrations?: unknown; places?: unknown };
  const issue = given === undefined ? undefined : registrations.safeParse(given).error?.issues[0];
  if (!issue) return new ChildError('broken', 'the child answered the load request with a malformed result');
  const path = issue.path.map(String);
  const place = (places as Record<string, unknown> | undefined)?.[path.slice(0, 2).join('.')];
  const pluginStack = typeof place === 'string' ? place : '';
  return new ChildError('load', `${path.join('.').slice(0, NAME_MAX_CHARS)}: ${issue.message}`, { pluginStack });
}
