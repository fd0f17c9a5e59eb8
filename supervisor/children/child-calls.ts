/** The calls of one child: how many at once, until when, and what came of each. */
import type { z } from 'zod';
import { limits } from '../../sdk/contract/limits.ts';
import { REASON_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import type { control, Target } from '../../sdk/contract/protocol.ts';
import { CallSlots } from './call-slots.ts';
import { Cancellation, type ChildConnection } from './child-connection.ts';
import { ChildError, timeoutOf } from './child-errors.ts';
import { Deadline } from './deadline.ts';

/** What the plugin's code did: answered, vetoed, or threw. */
export type Outcome = z.infer<(typeof control)['invoke']['result']>;

export interface InvokeOptions {
  readonly invocationId: string;
  /** Milliseconds since the epoch. */
  readonly deadlineAt: number;
  /** The caller's own way to give up. */
  readonly signal?: AbortSignal;
}

/**
 * A cancelled call is answered at once by a child whose code merely waits, and never by one that hangs. After its deadline
 * a child has this long to answer before it is killed, so it is gone within 100 ms. Milliseconds.
 */
const ABORT_WITHIN_MS = 50;

export interface CallBounds {
  readonly callsInFlight: number;
  readonly callsWaiting: number;
}

export class ChildCalls {
  readonly connection: ChildConnection;
  readonly #kill: (why: string) => void;
  readonly #slots: CallSlots;
  /** Calls that the child has not answered. Sixteen at most: a search, which only host calls make, beats a map. */
  readonly #running: Call[] = [];
  /** Whether budgets stand still, because somebody debugs the child. */
  #areHeld = false;
  #onIdle: (() => void) | null = null;

  /** `kill` ends the child: its code hangs, and nothing in it can be asked to stop. */
  constructor(connection: ChildConnection, kill: (why: string) => void, bounds: CallBounds = limits) {
    this.#slots = new CallSlots(bounds.callsInFlight, bounds.callsWaiting);
    this.connection = connection;
    this.#kill = kill;
  }

  /** Whether a handler with this invocation id is running, so that a message may speak for it. */
  has(invocationId: string): boolean {
    return this.#find(invocationId)?.isSettled === false;
  }

  pause(invocationId: string): void {
    this.#find(invocationId)?.deadline.pause();
  }

  resume(invocationId: string): void {
    this.#find(invocationId)?.deadline.resume();
  }

  /** Stops all budgets, or lets them run on. A call that still waits for a slot is held once it has one. */
  hold(areHeld: boolean): void {
    if (this.#areHeld === areHeld) return;
    this.#areHeld = areHeld;
    for (const { deadline } of this.#running) {
      if (areHeld) deadline.pause();
      else deadline.resume();
    }
  }

  #find(invocationId: string): Call | undefined {
    return this.#running.find((call) => call.invocationId === invocationId);
  }

  /** Resolves when nothing runs or after the grace, milliseconds. */
  async waitUntilIdle(graceMs: number): Promise<void> {
    if (this.#slots.taken === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onIdle = resolve;
    const timer = setTimeout(resolve, graceMs);
    await promise;
    clearTimeout(timer);
  }

  /** Runs a handler. Resolves with what the plugin's code did, rejects with `ChildError` for everything else. */
  run(target: Target, context: Readonly<Record<string, unknown>>, options: InvokeOptions): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const call = new Call(this, target, context, options, { resolve, reject });
      call.leaveSlot = this.#slots.take(() => call.start());
      if (call.leaveSlot === null) call.refuse(new ChildError('busy', 'too many calls wait for this plugin'));
      if (options.signal?.aborted) call.abandon();
    });
  }

  /** The call has been sent to the child. */
  add(call: Call): void {
    this.#running.push(call);
    if (this.#areHeld) call.deadline.pause();
  }

  /** The child has answered the call, or was never asked. */
  remove(call: Call): void {
    const index = this.#running.indexOf(call);
    const last = this.#running.at(-1);
    if (index >= 0 && last) {
      this.#running[index] = last;
      this.#running.pop();
    }
    call.leaveSlot?.();
    if (this.#slots.taken === 0) this.#onIdle?.();
  }

  /** Kills the child unless the call is answered soon. */
  killIfHung(call: Call, why: string): void {
    const deadline = new Deadline(ABORT_WITHIN_MS, () => this.#kill(why));
    call.onAnswered = () => deadline.clear();
  }
}

interface Caller {
  resolve(outcome: Outcome): void;
  reject(error: ChildError): void;
}

/**
 * One call. Its caller hears of it when the child answers, when the deadline passes or when the caller gives up; its slot is
 * free when the child has answered.
 */
class Call {
  readonly invocationId: string;
  readonly deadline: Deadline;
  /** Whether the caller knows what came of it. */
  isSettled = false;
  leaveSlot: (() => void) | null = null;
  onAnswered: (() => void) | null = null;
  readonly #calls: ChildCalls;
  readonly #target: Target;
  readonly #context: Readonly<Record<string, unknown>>;
  readonly #budgetMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #caller: Caller;
  /** Null until the call is sent. */
  #cancellation: Cancellation | null = null;

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
    this.#caller = caller;
    this.deadline = new Deadline(this.#budgetMs, () => this.#expire());
    this.#signal?.addEventListener('abort', this.abandon, { once: true });
  }

  /** Sends the call: it has a slot. */
  start(): void {
    const { invocationId } = this;
    this.#cancellation = new Cancellation();
    this.#calls.add(this);
    const params = { target: this.#target, invocationId, context: this.#context, deadlineMs: this.#budgetMs };
    this.#calls.connection.call(
      'invoke',
      params,
      this.#cancellation,
      (answer) => this.#finish(outcomeOf(answer) ?? new ChildError('broken', 'the plugin answered no outcome')),
      (error) => this.#finish(error),
    );
  }

  /** Fails the call before it was sent. */
  refuse(error: ChildError): void {
    this.#finish(error);
  }

  /** The caller gives up. The child has until the deadline to end the handler. */
  readonly abandon = (): void => {
    const error = new ChildError('aborted', 'the caller gave up');
    if (this.#cancellation === null) this.#finish(error);
    else {
      this.#settle(error);
      this.#calls.connection.cancel(this.#cancellation, 'caller');
    }
  };

  #expire(): void {
    const { kind, name } = this.#target;
    const error = timeoutOf(`${kind} ${name}`, this.#budgetMs, this.deadline.elapsedMs());
    if (this.#cancellation === null) this.#finish(error);
    else {
      this.#settle(error);
      this.#calls.connection.cancel(this.#cancellation, 'deadline');
      this.#calls.killIfHung(this, error.message);
    }
  }

  /** Nothing more comes of it. */
  #finish(outcome: Outcome | ChildError): void {
    this.#settle(outcome);
    this.deadline.clear();
    this.onAnswered?.();
    this.#calls.remove(this);
  }

  #settle(outcome: Outcome | ChildError): void {
    if (this.isSettled) return;
    this.isSettled = true;
    this.#signal?.removeEventListener('abort', this.abandon);
    if (outcome instanceof ChildError) this.#caller.reject(outcome);
    else this.#caller.resolve(outcome);
  }
}

/** The envelope by hand: a schema would cost a tenth of the whole round trip. The answer itself is the caller's to check. */
function outcomeOf(message: unknown): Outcome | null {
  if (typeof message !== 'object' || message === null) return null;
  const { outcome, answer, reason, message: words, stack } = message as Readonly<Record<string, unknown>>;
  if (outcome === 'answered') return { outcome, answer };
  if (outcome === 'cancelled' && isText(reason) && reason !== '' && reason.length <= REASON_MAX_CHARS)
    return { outcome, reason };
  if (outcome === 'failed' && isText(words) && isText(stack)) return { outcome, message: words, stack };
  return null;
}
const isText = (value: unknown): value is string => typeof value === 'string';
