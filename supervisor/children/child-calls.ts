/** The calls of one child: bounds their number, ends them at their deadlines, and returns their outcomes. */
import type { Disposable } from 'vscode-jsonrpc';
import type { z } from 'zod';
import { DELTAS_UNREAD_MAX } from '../../sandbox-child/json-rpc.ts';
import { limits, SECOND } from '../../sdk/contract/limits.ts';
import { REASON_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import { control, PAUSED_MAX_MS, type Target } from '../../sdk/contract/protocol.ts';
import type { HostRow } from '../../sdk/contract/rows.ts';
import { within } from '../../service/timing/within.ts';
import { BUDGET_FACTOR_MAX, formatSource, type UncountedTime } from '../calls/plugin-call.ts';
import type { CpuDemand, WatchedProcess } from '../jail/watched-process.ts';
import { CallSlots } from './call-slots.ts';
import { type ChildConnection, SentCancellation } from './child-connection.ts';
import { describeViolation } from './child-end.ts';
import { ChildError, createTimeoutError, createUnsentError } from './child-errors.ts';
import { cutFailure } from './child-text.ts';
import { COMPUTING_SHARE, Deadline, FairDeadline, HostCallPauses, HostDelays, type PauseBounds } from './deadline.ts';

/** What the plugin's handler did: it answered, cancelled, or threw. `invalid_arguments`: it did not run. */
export type Outcome = z.infer<(typeof control)['invoke']['result']>;

/** Passes one delta on. Called in the order of the deltas, each after the one before has resolved, and all before the call settles. */
type PassDelta = () => Promise<void>;

export interface InvokeOptions {
  readonly invocationId: string;
  /** Milliseconds since the epoch. */
  readonly deadlineAt: number;
  /** Aborts the call. */
  readonly signal?: AbortSignal | undefined;
  /** Receives each delta of the answer when it arrives. Neither it nor the returned function may throw or reject. */
  readonly onDelta?: ((delta: unknown) => PassDelta) | undefined;
  /** Called before the call settles, if a part of its time does not count. */
  readonly onUncounted?: ((time: UncountedTime) => void) | undefined;
}

/**
 * How long a child may take to answer a call that was cancelled at its deadline. After that it is killed: code that awaits answers
 * at once, and code that blocks the event loop never does. Milliseconds.
 */
const ABORT_WITHIN_MS = 50;
/** A child is killed only after this much CPU time: on a busy machine, it may not have read the cancellation before. Milliseconds. */
const ABORT_CPU_MS = 25;
/** A child is killed after this time even if it had less CPU time. Milliseconds. */
const ABORT_WITHIN_MAX_MS = 1_000;
/**
 * The time for which the child's output is throttled is added to that, up to this: the child reads no cancellation while a write
 * blocks. Sixteen host calls of 2 MiB are read in 8 s. Milliseconds.
 */
const ABORT_THROTTLED_MAX_MS = 20_000;

const PAUSE_BOUNDS: PauseBounds = { maxMs: PAUSED_MAX_MS, lookEveryMs: SECOND };

const DONE = Promise.resolve();

export interface CallBounds {
  readonly callsInFlight: number;
  readonly callsWaiting: number;
}

interface CalledProcess extends Pick<WatchedProcess, 'cpuDemand'> {
  /** Ends a process whose code hangs. */
  kill(why: string): void;
}

export class ChildCalls {
  readonly connection: ChildConnection;
  readonly process: CalledProcess;
  readonly #slots: CallSlots;
  /** Of the pauses of one call's budget. */
  readonly #pauseBounds: PauseBounds;
  /** Calls that have not ended, in the order in which they were sent. At most 16, so a search is faster than a map. */
  readonly #running: Call[] = [];
  readonly #hostDelays = new HostDelays();
  /** Whether all budgets are paused, because a debugger is attached to the child. */
  #isPaused = false;
  /** Resolves when no call runs. Null: nothing waits for that. */
  #idle: PromiseWithResolvers<void> | null = null;

  constructor(
    connection: ChildConnection,
    process: CalledProcess,
    bounds: CallBounds = limits,
    pauseBounds = PAUSE_BOUNDS,
  ) {
    this.#slots = new CallSlots(bounds.callsInFlight, bounds.callsWaiting);
    this.connection = connection;
    this.process = process;
    this.#pauseBounds = pauseBounds;
  }

  /** Whether the caller of this invocation still waits. Only then may a host call of the child name it. */
  has(invocationId: string): boolean {
    return this.#find(invocationId)?.isSettled === false;
  }

  /**
   * Begins a host call of a running handler.
   *
   * @param budget what its wait does to the handler's budget
   * @returns a function that ends it, to be called once
   */
  beginHostCall(invocationId: string, budget: HostRow['budget']): () => void {
    const endDelay = budget === 'extended' ? this.#hostDelays.begin() : undefined;
    const endWait = this.#find(invocationId)?.beginHostCall(budget === 'paused');
    return () => {
      endDelay?.();
      endWait?.();
    };
  }

  /** Pauses or resumes the budgets of all running calls. While paused, the budget of a call pauses when it gets its slot. */
  setPaused(isPaused: boolean): void {
    if (this.#isPaused === isPaused) return;
    this.#isPaused = isPaused;
    for (const { deadline } of this.#running) {
      if (isPaused) deadline.pause();
      else deadline.resume();
    }
  }

  /** Records that the child has started this handler. A child reports it if it has not answered an earlier call. */
  recordStart(invocationId: string): void {
    const started = this.#find(invocationId);
    if (started) started.hasStarted = true;
  }

  /**
   * Finds the call that blocks a child that hangs: the last one that has started, was not answered and waits for no host call. If all wait
   * for one, the last whose budget runs: it may compute meanwhile.
   */
  findHung(): Call | undefined {
    const started = this.#running.filter((call) => call.hasStarted && !call.isAnswered);
    return started.findLast((call) => call.hostCalls === 0) ?? started.findLast((call) => !call.deadline.isPaused);
  }

  createPauses(deadline: Deadline): HostCallPauses {
    const answer = async (): Promise<void> => void (await this.connection.request('health', {}).catch(() => undefined));
    return new HostCallPauses(deadline, this.#pauseBounds, this.process, answer);
  }

  #find(invocationId: string): Call | undefined {
    return this.#running.find((call) => call.invocationId === invocationId);
  }

  /** Resolves when no call runs, at the latest after `graceMs`. */
  async waitUntilIdle(graceMs: number): Promise<void> {
    if (this.#slots.inUse === 0) return;
    this.#idle ??= Promise.withResolvers<void>();
    await within(this.#idle.promise, graceMs);
  }

  /** Runs a handler. Resolves with the outcome of the plugin's code. Rejects with `ChildError` in all other cases. */
  run(target: Target, context: Readonly<Record<string, unknown>>, options: InvokeOptions): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const call = new Call(this, target, context, options, { resolve, reject });
      // Sent and cancelled at once, its handler could still begin.
      if (options.signal?.aborted) return call.abandon();
      call.leaveSlot = this.#slots.acquire(() => call.start());
      if (call.leaveSlot === null) call.finish(new ChildError('busy', 'too many calls wait for this plugin'));
    });
  }

  /** Registers a call that is sent to the child. */
  add(call: Call): void {
    this.#running.push(call);
    this.markOldestStarted();
    if (this.#isPaused) call.deadline.pause();
  }

  /** Frees the slot of a call that was answered, or that was never sent. */
  remove(call: Call): void {
    const index = this.#running.indexOf(call);
    if (index >= 0) this.#running.splice(index, 1);
    this.markOldestStarted();
    call.leaveSlot?.();
    if (this.#slots.inUse > 0) return;
    this.#idle?.resolve();
    this.#idle = null;
  }

  /** The oldest call that the child has not answered has started, because the child starts calls in the order of sending. */
  markOldestStarted(): void {
    const oldest = this.#running.find(({ isAnswered }) => !isAnswered);
    if (oldest) oldest.hasStarted = true;
  }

  /** Kills a child that breaks the protocol. */
  kill(why: string): void {
    this.process.kill(describeViolation(why));
  }

  get hostDelayMs(): number {
    return this.#hostDelays.delayedMs;
  }

  /**
   * Counts more as waiting: the time for which the child's output is throttled, because its writes block and its answers stay in the pipe,
   * and the time for which the host is late, because a slow database is not the plugin's fault.
   */
  cpuDemand(): CpuDemand {
    const demand = this.process.cpuDemand();
    const waitedMs = demand.waitedMs + this.connection.throttledMs + this.hostDelayMs;
    return { ...demand, waitedMs };
  }

  /**
   * Kills the child if it does not answer a cancelled call within `ABORT_WITHIN_MS`. A child that had too little CPU time gets up to
   * `ABORT_WITHIN_MAX_MS`, and one that waits until its output is read up to `ABORT_THROTTLED_MAX_MS` more.
   */
  killIfHung(call: Call, why: string): void {
    const { hadMs: firstHadMs } = this.process.cpuDemand();
    const { throttledMs: firstThrottledMs } = this.connection;
    let lastThrottledMs = firstThrottledMs;
    /** The CPU time when the output was last seen throttled: a child that waits for that, too, has used a little. */
    let startHadMs = firstHadMs;
    const scheduleCheck = (waitedMs: number): void => {
      const deadline = new Deadline(ABORT_WITHIN_MS, () => {
        const { hadMs } = this.process.cpuDemand();
        const { throttledMs } = this.connection;
        if (throttledMs !== lastThrottledMs) startHadMs = hadMs;
        lastThrottledMs = throttledMs;
        const nextMs = waitedMs + ABORT_WITHIN_MS;
        // Its answer may be among the messages that wait.
        const isHung = hadMs - startHadMs >= ABORT_CPU_MS && !this.connection.isBehind;
        const isComputing = hadMs - firstHadMs >= nextMs * COMPUTING_SHARE;
        const addedMs = isComputing ? 0 : Math.min(throttledMs - firstThrottledMs, ABORT_THROTTLED_MAX_MS);
        if (isHung || nextMs >= ABORT_WITHIN_MAX_MS + addedMs) {
          this.findHung()?.expireAsHung();
          this.process.kill(why);
        } else scheduleCheck(nextMs);
      });
      call.onAnswered = () => deadline.clear();
    };
    scheduleCheck(0);
  }
}

interface Caller {
  resolve(outcome: Outcome): void;
  reject(error: ChildError): void;
}

/**
 * One call. Its promise settles when the child answers, the deadline passes or the caller aborts. It occupies its slot until the
 * child has answered.
 */
class Call {
  readonly invocationId: string;
  readonly deadline: FairDeadline;
  /** Whether the caller's promise is settled. */
  isSettled = false;
  /** Whether the child is known to have started the handler. */
  hasStarted = false;
  /** How many host calls of the handler run. */
  hostCalls = 0;
  /** Whether the child has answered. The caller may still be reading deltas. */
  isAnswered = false;
  leaveSlot: (() => void) | null = null;
  onAnswered: (() => void) | null = null;
  readonly #calls: ChildCalls;
  readonly #target: Target;
  readonly #context: Readonly<Record<string, unknown>>;
  readonly #budgetMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #caller: Caller;
  readonly #onDelta: InvokeOptions['onDelta'];
  readonly #onUncounted: InvokeOptions['onUncounted'];
  /** Null: no host call has paused the budget. */
  #pauses: HostCallPauses | null = null;
  #deltas: Disposable | null = null;
  #unreadDeltas = 0;
  /** Resolves when all deltas that have arrived were passed on. */
  #deltasRead: Promise<void> = DONE;
  /** Null until the call is sent. */
  #cancellation: SentCancellation | null = null;
  #isFinished = false;
  /** `throttledMs` of the connection when the call was sent. */
  #throttledBeforeMs = 0;

  constructor(
    calls: ChildCalls,
    target: Target,
    context: Readonly<Record<string, unknown>>,
    options: InvokeOptions,
    caller: Caller,
  ) {
    this.invocationId = options.invocationId;
    this.#calls = calls;
    this.#target = target;
    this.#context = context;
    this.#budgetMs = Math.max(options.deadlineAt - Date.now(), 0);
    this.#signal = options.signal;
    this.#onDelta = options.onDelta;
    this.#onUncounted = options.onUncounted;
    this.#caller = caller;
    // Waiting for a processor and for the reading of output extends it, too.
    this.deadline = new FairDeadline(this.#budgetMs, calls, BUDGET_FACTOR_MAX, () => this.#expireAfterTurn());
    this.#signal?.addEventListener('abort', this.abandon, { once: true });
  }

  /** Sends the call, which has a slot now. */
  start(): void {
    const { invocationId } = this;
    this.#cancellation = new SentCancellation();
    this.#throttledBeforeMs = this.#calls.connection.throttledMs;
    this.#calls.add(this);
    const params = { target: this.#target, invocationId, context: this.#context, deadlineMs: this.#budgetMs };
    if (this.#onDelta)
      this.#deltas = this.#calls.connection.onDelta(invocationId, (delta) => this.#receiveDelta(delta));
    const { closed } = this.#calls.connection;
    this.#calls.connection.call(
      'invoke',
      this.#onDelta ? { ...params, wantsDeltas: true } : params,
      this.#cancellation,
      (answer) =>
        this.#answer(
          parseOutcome(answer, this.#target) ?? new ChildError('broken', 'the plugin returned a malformed result'),
        ),
      // A call that waited for a slot when the child ended is not sent.
      (error) => this.finish(closed ? createUnsentError(closed.message) : error),
    );
  }

  #receiveDelta(delta: unknown): void {
    // The deadline has passed, or the caller has aborted.
    if (this.isSettled) return;
    this.#unreadDeltas += 1;
    if (this.#unreadDeltas > DELTAS_UNREAD_MAX) {
      this.#calls.kill('more deltas than it may send ahead');
      return;
    }
    // Called now, not when the earlier deltas were passed on: it keeps the delta's text, and the frame's memory can be freed.
    const pass = this.#onDelta?.(delta);
    this.#deltasRead = this.#deltasRead.then(() => this.#passOn(pass));
  }

  async #passOn(pass: PassDelta | undefined): Promise<void> {
    if (this.isSettled) return;
    await pass?.();
    this.#unreadDeltas -= 1;
    this.#calls.connection.notify('deltaRead', { invocationId: this.invocationId });
  }

  /** Ends the call after its deltas were passed on. */
  #answer(outcome: Outcome | ChildError): void {
    this.isAnswered = true;
    if (this.#unreadDeltas === 0 || this.isSettled) this.finish(outcome);
    else {
      this.#calls.markOldestStarted();
      void this.#deltasRead.then(() => this.isSettled || this.finish(outcome));
    }
  }

  /** Rejects the promise of a caller that aborts. The child has until the deadline to end the handler. */
  readonly abandon = (): void => {
    const why = describeAbort(this.#signal);
    const isUnsent = this.#cancellation === null;
    const error = new ChildError('aborted', `the caller aborted the call${why === null ? '' : `: ${why}`}`, {
      isUnsent,
    });
    if (this.#cancellation === null || this.isAnswered) this.finish(error);
    else {
      this.#settleCaller(error);
      this.#calls.connection.cancel(this.#cancellation, why === null ? 'caller' : `caller: ${why}`);
    }
  };

  /** @returns a function that ends the host call, to be called once */
  beginHostCall(pausesBudget: boolean): () => void {
    if (pausesBudget) this.#pauses ??= this.#calls.createPauses(this.deadline);
    const pauses = pausesBudget ? this.#pauses : null;
    this.hostCalls += 1;
    pauses?.pause();
    return () => {
      this.hostCalls -= 1;
      pauses?.resume();
    };
  }

  get #handler(): string {
    return formatSource(this.#target);
  }

  /** The reason in the errors of calls that this one blocked. */
  describeHang(): string {
    const throttledMs = Math.round(this.#calls.connection.throttledMs - this.#throttledBeforeMs);
    const throttled = throttledMs > 0 ? ` (the plugin's output waited ${throttledMs} ms for its rate limit)` : '';
    return `${this.#handler} did not return for ${Math.round(this.deadline.elapsedMs())} ms${throttled}`;
  }

  /** Its own deadline may be later than that of the call which it blocks, but the child ends now. */
  expireAsHung(): void {
    this.#settleCaller(new ChildError('timeout', this.describeHang()));
  }

  /** An answer that has arrived by the deadline counts, also if it waits for a turn of the event loop. */
  #expireAfterTurn(): void {
    this.#calls.connection.afterTurn(() => {
      if (!this.#isFinished) this.#expire();
    });
  }

  #expire(): void {
    if (this.#cancellation === null) {
      this.finish(this.#createBusyError());
      return;
    }
    const hung = this.#calls.findHung();
    const waited = this.#pauses?.isUsedUp ? `, besides ${this.#pauses.maxMs} ms of waiting for host calls` : '';
    const detail = ` (${Math.round(this.deadline.elapsedMs())} ms${waited})`;
    const timeout = createTimeoutError(this.#handler, this.#budgetMs, detail);
    const hang = hung && hung !== this ? hung.describeHang() : timeout.message;
    const isBlocked = !this.hasStarted && hang !== timeout.message;
    const error = isBlocked
      ? new ChildError('timeout', `${hang}, so ${this.#handler} did not start`, { blockedBy: hang })
      : timeout;
    if (this.isAnswered) this.finish(error);
    else {
      this.#settleCaller(error);
      this.#calls.connection.cancel(this.#cancellation, 'deadline');
      this.#calls.killIfHung(this, hang);
    }
  }

  /** The error of a call whose deadline passes before it gets a slot. */
  #createBusyError(): ChildError {
    const waitedMs = Math.round(this.deadline.elapsedMs());
    return new ChildError(
      'busy',
      `other calls of this plugin were still running after ${waitedMs} ms, so ${this.#handler} did not start`,
    );
  }

  /** Ends the call and frees its slot. A call that was not sent leaves the queue. */
  finish(outcome: Outcome | ChildError): void {
    this.#isFinished = true;
    this.#settleCaller(outcome);
    this.deadline.clear();
    this.#pauses?.clear();
    this.onAnswered?.();
    this.#deltas?.dispose();
    this.#calls.remove(this);
  }

  #settleCaller(outcome: Outcome | ChildError): void {
    if (this.isSettled) return;
    this.isSettled = true;
    this.#signal?.removeEventListener('abort', this.abandon);
    const { pausedMs, hostDelayMs } = this.deadline;
    if (pausedMs > 0 || hostDelayMs > 0) this.#onUncounted?.({ pausedMs, hostDelayMs });
    if (outcome instanceof ChildError) this.#caller.reject(outcome);
    else this.#caller.resolve(outcome);
  }
}

/** Returns the caller's reason; null: it gave none. Truncates it, because an MCP client chooses the text. */
function describeAbort(signal: AbortSignal | undefined): string | null {
  const reason: unknown = signal?.reason;
  const text = reason instanceof Error ? reason.message : reason;
  return isText(text) && text !== '' ? text.slice(0, REASON_MAX_CHARS).toWellFormed() : null;
}

/** Parses the envelope without a schema, which would take a tenth of the round trip. The caller validates `answer`. */
function parseOutcome(message: unknown, { kind }: Target): Outcome | null {
  if (typeof message !== 'object' || message === null) return null;
  const { outcome, answer, reason, message: words, stack } = message as Readonly<Record<string, unknown>>;
  if (outcome === 'answered') return { outcome, answer };
  if (outcome === 'cancelled' && isText(reason) && reason !== '' && reason.length <= REASON_MAX_CHARS)
    return { outcome, reason };
  if (outcome === 'failed' && isText(words) && isText(stack)) return { outcome, ...cutFailure(words, stack) };
  if (outcome === 'invalid_arguments' && kind === 'tools') return control.invoke.result.safeParse(message).data ?? null;
  return null;
}
const isText = (value: unknown): value is string => typeof value === 'string';
