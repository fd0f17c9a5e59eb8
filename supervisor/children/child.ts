/** One jailed child process: its states, its calls and its end. */
import type { Duplex } from 'node:stream';
import type { z } from 'zod';
import { describeFieldFault } from '../../sdk/contract/field-faults.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { control, registrations, type Target } from '../../sdk/contract/protocol.ts';
import type { HostRow } from '../../sdk/contract/rows.ts';
import type { TokenBucket } from '../../service/timing/token-bucket.ts';
import type { Jail, JailedProcess } from '../jail/jail.ts';
import type { CpuClasses } from '../jail/limiter.ts';
import type { Pipes } from '../jail/spawner.ts';
import type { CpuDemand } from '../jail/watched-process.ts';
import { type CallBounds, ChildCalls, type InvokeOptions, type Outcome } from './child-calls.ts';
import { ChildConnection } from './child-connection.ts';
import { type ChildEnd, describeEnd, describeViolation, STOPPED } from './child-end.ts';
import { ChildError, createTimeoutError, createUnsentError, HostCallRefusal } from './child-errors.ts';
import { quote } from './child-message.ts';
import type { ReadBounds } from './child-message-reader.ts';
import { cutFailure } from './child-text.ts';
import { FairDeadline } from './deadline.ts';
import { collectTail, type Tail } from './stderr-tail.ts';

type ChildState = 'spawning' | 'ready' | 'loaded' | 'draining' | 'dead';

type Params<Name extends keyof typeof control> = z.output<(typeof control)[Name]['params']>;
export type HostCall = Params<'hostCall'>;
export type ChildLogLine = Params<'log'>;
export type Bundle = Params<'load'>;
export type Loaded = Extract<z.output<typeof control.load.result>, { outcome: 'loaded' }>;

export interface ChildHandlers {
  /** Handles a host call. Reject with `HostCallRefusal` to send its text to the plugin; other errors become `internal`. */
  onHostCall(call: HostCall): Promise<unknown>;
  onLog(line: ChildLogLine): void;
  /** Called once, when every process of the jail is gone. */
  onExit(end: ChildEnd): void;
}

interface StopOptions {
  readonly graceMs: number;
  /** From SIGTERM to SIGKILL, milliseconds. */
  readonly terminateMs?: number;
}

/** Limits of one child, set by the operator. */
export type ChildBounds = CallBounds & ReadBounds;
const defaultBounds: ChildBounds = limits;

/** Waiting for a processor extends the budget of a start or a health check to at most this many times its length. */
const BUDGET_FACTOR_MAX = 6;
/** From SIGTERM to SIGKILL, milliseconds. A child that handles it takes ten on a quiet machine. */
const TERMINATE_WITHIN_MS = 250;
/** From spawn to `ready`. Usually 60 ms; a machine that needs 10 s is overloaded. */
const READY_WITHIN_MS = 10_000;
/** From spawn to `ready` in the idle CPU class: a busy machine may not schedule the child for a while. */
const IDLE_CLASS_READY_WITHIN_MS = 60_000;
/** Length of a malformed registration's name in its error, characters. */
const NAME_MAX_CHARS = 100;

/** The pipes of a running child. */
interface ConnectedPipes {
  readonly connection: ChildConnection;
  readonly calls: ChildCalls;
  readonly inspector: Duplex | null;
}

/** Starts a child. Await `ready`, then call `load`. */
export function startChild(jail: Jail, handlers: ChildHandlers, bounds = defaultBounds): Child {
  return new Child(jail.spawn(), handlers, bounds);
}

export class Child {
  /** Rejects with `ChildError` if the child ends first. */
  readonly ready: Promise<void>;
  /** Resolves when every process of the child is gone. */
  readonly ended: Promise<ChildEnd>;
  readonly #stderr: Tail;
  readonly #jailed: JailedProcess;
  readonly #handlers: ChildHandlers;
  readonly #readyReceived = Promise.withResolvers<void>();
  readonly #startedAt = performance.now();
  #readyTimer: NodeJS.Timeout | undefined;
  #yields = false;
  #accountId: string | null = null;
  /** Null until the process is spawned. */
  #pipes: ConnectedPipes | null = null;
  #state: ChildState = 'spawning';
  /** Why the supervisor ended the child. */
  #endReason: string | null = null;
  /** SIGTERM was sent and the process has not exited yet. */
  #isTerminating = false;

  /** Use `startChild`. */
  constructor(jailed: JailedProcess, handlers: ChildHandlers, bounds = defaultBounds) {
    this.#jailed = jailed;
    this.#handlers = handlers;
    this.#stderr = collectTail(jailed.pipes.then(({ stderr }) => stderr));
    jailed.pipes.then(
      (pipes) => this.#connect(pipes, bounds),
      () => undefined,
    );
    this.ended = this.#waitForEnd();
    this.ready = this.#waitUntilReady();
    // Without a handler, a child whose `ready` is never awaited would raise an unhandled rejection.
    this.ready.catch(() => undefined);
  }

  get state(): ChildState {
    return this.#state;
  }

  /** Process id on the host; 0 before `ready`, unchanged after the end. */
  get pid(): number {
    return this.#jailed.pid;
  }

  /** Evaluates a bundle; allowed once. Rejects with `ChildError`. A child that exceeds the budget is killed. */
  async load(bundle: Bundle, budgetMs: number = limits.loadBudgetMs): Promise<Loaded> {
    await this.ready;
    if (this.#state !== 'ready') throw new ChildError('dead', this.#endReason ?? `the child is ${this.#state}`);
    const answer = await this.#request('load', bundle, {
      what: 'loading',
      budgetMs,
      detail: ': the top-level code did not end',
    });
    const result = control.load.result.safeParse(answer);
    if (!result.success) throw describeMalformedLoad(answer);
    if (result.data.outcome === 'failed') throw createLoadError(result.data.message, result.data.stack);
    this.#state = 'loaded';
    return result.data;
  }

  /** Resolves when a loaded child answers. Rejects with `ChildError`. A child that does not answer in time is killed. */
  async checkHealth(budgetMs: number): Promise<void> {
    const answer = await this.#request('health', {}, { what: 'its health check', budgetMs, detail: '' });
    if (control.health.result.safeParse(answer).success) return;
    throw new ChildError('broken', 'it answered the health check with a malformed result');
  }

  /** Sends a request. A child that does not answer within the budget is killed. */
  async #request(
    method: 'load' | 'health',
    params: object,
    { what, budgetMs, detail }: { what: string; budgetMs: number; detail: string },
  ): Promise<unknown> {
    const timeout = createTimeoutError(what, budgetMs, detail);
    let isOver = false;
    const kill = (): void => {
      if (!isOver) void this.kill(timeout.message);
    };
    const deadline = new FairDeadline(budgetMs, this, BUDGET_FACTOR_MAX, () => this.#pipes?.connection.afterTurn(kill));
    try {
      return await this.#pipes?.connection.request(method, params);
    } catch (error) {
      throw this.#endReason === timeout.message ? timeout : error;
    } finally {
      isOver = true;
      deadline.clear();
    }
  }

  /** Charges the child's output to this bucket from now on. The child's successors may share the bucket. */
  chargeOutputTo(bucket: TokenBucket): void {
    this.#pipes?.connection.chargeOutputTo(bucket);
  }

  /** Sends new settings and grants. They apply to later calls. */
  configure(settings: Readonly<Record<string, string>>, members: readonly string[]): void {
    this.#pipes?.connection.notify('configure', { settings, members });
  }

  /** Runs a handler. Resolves with the outcome of the plugin's code; rejects with `ChildError` for all other failures. */
  invoke(target: Target, context: Readonly<Record<string, unknown>>, options: InvokeOptions): Promise<Outcome> {
    if (this.#state !== 'loaded' || !this.#pipes) {
      return Promise.reject(createUnsentError(this.#endReason ?? `the child is ${this.#state}`));
    }
    return this.#pipes.calls.run(target, context, options);
  }

  /**
   * Begins a host call of a running handler. All host calls of a handler together pause its budget for at most `PAUSED_MAX_MS`.
   *
   * @param budget what its wait does to the handler's budget
   * @returns a function that ends it, to be called once
   */
  beginHostCall(invocationId: string, budget: HostRow['budget']): () => void {
    return this.#pipes?.calls.beginHostCall(invocationId, budget) ?? (() => undefined);
  }

  /** The inspector's stream; null for a child that was not started for inspection. */
  get inspector(): Duplex | null {
    return this.#pipes?.inspector ?? null;
  }

  /** Pauses the budgets of all handlers while a debugger is attached, or resumes them. */
  holdDeadlines(held: boolean): void {
    this.#pipes?.calls.setPaused(held);
  }

  /**
   * Refuses new calls, lets running ones finish within `graceMs`, then sends SIGTERM and, `terminateMs` later, SIGKILL. With
   * `graceMs` 0 it kills the child at once.
   */
  async stop({ graceMs, terminateMs = TERMINATE_WITHIN_MS }: StopOptions): Promise<ChildEnd> {
    if (graceMs === 0) return this.kill(STOPPED);
    if (this.#state === 'loaded') this.#state = 'draining';
    // Also in a later stop: the grace that ends first counts.
    if (this.#state === 'draining') await Promise.race([this.#pipes?.calls.waitUntilIdle(graceMs), this.ended]);
    // Killed, or another stop has sent SIGTERM.
    if (this.#state === 'dead') return this.ended;
    this.#markDead(STOPPED);
    this.#isTerminating = true;
    this.#jailed.terminate();
    const killer = setTimeout(() => this.#jailed.kill(), terminateMs);
    return this.ended.finally(() => {
      this.#isTerminating = false;
      clearTimeout(killer);
    });
  }

  /** Kills the child. `why`, one sentence, becomes the reason of its end. */
  kill(why: string): Promise<ChildEnd> {
    // A dead child may still be terminating after SIGTERM.
    if (this.#state !== 'dead' || this.#isTerminating) this.#jailed.kill();
    this.#markDead(why);
    return this.ended;
  }

  #markDead(why: string): void {
    if (this.#state === 'dead') return;
    this.#endReason ??= why;
    this.#state = 'dead';
    const interrupted = this.#endReason === STOPPED;
    this.#pipes?.connection.close(new ChildError('dead', this.#endReason, { interrupted }));
  }

  /** The last 8 kB of stderr. */
  stderr(): string {
    return this.#stderr.text();
  }

  /** Resident bytes; 0 after the end. */
  rss(): number {
    return this.#jailed.rss();
  }

  /** CPU time used, milliseconds, in steps of 10; the total after the end. */
  processorMs(): number {
    return this.#jailed.processorMs();
  }

  /** CPU time used and waited for; zeros after the end. */
  cpuDemand(): CpuDemand {
    return this.#jailed.cpuDemand();
  }

  /** Limits the child together with the others of an account, where the machine can. Call it at most once. */
  assignAccount(accountId: string): void {
    this.#accountId = accountId;
    this.#pipes?.connection.shareTurnsOf(accountId);
    this.#jailed.assignAccount(accountId);
  }

  /** Changes how the child and its account compete for the CPU. Does nothing without a control group. */
  setCpuClasses(classes: CpuClasses): void {
    this.#jailed.setCpuClasses(classes);
    const yields = classes.child !== 'normal' || classes.account !== 'normal';
    if (yields === this.#yields) return;
    this.#yields = yields;
    if (this.#state === 'spawning') this.#restartReadyTimer();
  }

  /** Kills the child unless it becomes ready within the limit, counted from now. */
  #restartReadyTimer(): void {
    const limitMs = this.#yields ? IDLE_CLASS_READY_WITHIN_MS : READY_WITHIN_MS;
    clearTimeout(this.#readyTimer);
    this.#readyTimer = setTimeout(() => this.kill(`it was not ready within ${limitMs} ms`), limitMs);
  }

  #connect({ stdin, stdout, inspector }: Pipes, bounds: ChildBounds): void {
    // The child was killed before its pipes arrived.
    if (this.#state === 'dead') return;
    const handlers = {
      onRequest: (_method: string, params: unknown) => this.#onHostCall(params),
      onNotification: (method: string, params: unknown) => this.#onNotification(method, params),
      onViolation: (reason: string) => this.#onViolation(reason),
    };
    const connection = new ChildConnection(stdout, stdin, handlers, bounds);
    if (this.#accountId !== null) connection.shareTurnsOf(this.#accountId);
    this.#pipes = { connection, calls: new ChildCalls(connection, this, bounds), inspector };
  }

  async #waitUntilReady(): Promise<void> {
    this.#restartReadyTimer();
    try {
      await Promise.all([this.#readyReceived.promise, this.#jailed.confined]);
      if (this.#state === 'spawning') this.#state = 'ready';
    } catch {
      throw new ChildError('dead', (await this.ended).reason);
    } finally {
      clearTimeout(this.#readyTimer);
    }
  }

  async #waitForEnd(): Promise<ChildEnd> {
    const exit = await this.#jailed.exited;
    const ranMs = performance.now() - this.#startedAt;
    await this.#stderr.waitForEnd();
    const end = describeEnd(exit, { why: this.#endReason, stderr: this.stderr(), ranMs });
    const error = new ChildError('dead', end.reason, { interrupted: end.interrupted });
    this.#state = 'dead';
    this.#endReason ??= end.reason;
    this.#pipes?.connection.close(error);
    this.#closePipes();
    this.#readyReceived.reject(error);
    this.#handlers.onExit(end);
    return end;
  }

  /** Unread data would keep the pipes open. */
  #closePipes(): void {
    const close = ({ stdin, stdout, stderr, inspector }: Pipes) => {
      for (const pipe of [stdin, stdout, stderr, inspector]) pipe?.destroy();
    };
    this.#jailed.pipes.then(close, () => undefined);
  }

  #onViolation(reason: string): void {
    this.kill(describeViolation(reason));
  }

  #onNotification(method: string, params: unknown): void {
    const row = method === 'ready' || method === 'started' ? control[method] : control.log;
    const parsed = row.params.safeParse(params);
    if (!parsed.success) this.#onViolation(`a malformed notification ${quote(method)}`);
    else if (method === 'ready') this.#readyReceived.resolve();
    else if (method === 'started') this.#pipes?.calls.recordStart((parsed.data as Params<'started'>).invocationId);
    else this.#handlers.onLog(this.#dropForeignInvocation(parsed.data as ChildLogLine));
  }

  async #onHostCall(params: unknown): Promise<unknown> {
    const parsed = control.hostCall.params.safeParse(params);
    if (parsed.success) return this.#handlers.onHostCall(this.#dropForeignInvocation(parsed.data));
    this.#onViolation('a malformed request "hostCall"');
    throw new HostCallRefusal('malformed', 'malformed');
  }

  /** Drops an invocation id that is not a running handler of this child: the child may not name another's. */
  #dropForeignInvocation<T extends { readonly invocationId: string | null }>(message: T): T {
    if (message.invocationId === null || this.#pipes?.calls.has(message.invocationId)) return message;
    return { ...message, invocationId: null };
  }
}

/** A malformed registration is the author's mistake. Any other malformed result means a broken child. */
function describeMalformedLoad(answer: unknown): ChildError {
  const { registrations: given, places } = (answer ?? {}) as { registrations?: unknown; places?: unknown };
  const issue =
    given === undefined ? undefined : registrations.safeParse(given, { error: describeFieldFault }).error?.issues[0];
  if (!issue) return new ChildError('broken', 'the child answered the load request with a malformed result');
  const path = issue.path.map(String);
  const place = (places as Record<string, unknown> | undefined)?.[path.slice(0, 2).join('.')];
  const stack = typeof place === 'string' ? place : '';
  return createLoadError(`${path.join('.').slice(0, NAME_MAX_CHARS)}: ${issue.message}`, stack);
}

function createLoadError(text: string, pluginStack: string): ChildError {
  const { message, stack } = cutFailure(text, pluginStack);
  return new ChildError('load', message, { pluginStack: stack });
}
