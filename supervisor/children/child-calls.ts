/** The calls of one child: how many at once, until when, and what came of each. */
import type { z } from 'zod';
import { limits } from '../../sdk/contract/limits.ts';
import { REASON_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import type { control, Target } from '../../sdk/contract/protocol.ts';
import { CallSlots } from './call-slots.ts';
import { ChildError, timeoutOf } from './child-errors.ts';
import { type Deadline, DeadlineClock } from './deadline.ts';
import type { Wire } from './wire.ts';

/** What the plugin's code did: answered, vetoed, or threw. */
export type Outcome = z.infer<(typeof control)['invoke']['result']>;

export interface InvokeOptions {
  readonly invocationId: string;
  /** Milliseconds since the epoch. */
  readonly deadlineAt: number;
  /** The caller's own way to give up. */
  readonly signal?: AbortSignal;
}

/** A child that hangs cannot answer a ping; one that is merely late can. Ended 100 ms after its deadline at the latest. */
const PING_WITHIN_MS = 50;

export interface CallBounds {
  readonly callsInFlight: number;
  readonly callsWaiting: number;
}

export class ChildCalls {
  readonly #wire: Wire;
  readonly #kill: (why: string) => void;
  readonly #slots: CallSlots;
  /** Sixteen at most: looking through them, which only host calls do, is cheaper than hashing every call's id. */
  readonly #running: Call[] = [];
  /** Whether budgets stand still, because somebody looks into the child with a debugger. */
  #held = false;
  #idle: (() => void) | null = null;

  /** `kill` ends the child: its code hangs, and nothing in it can be asked to stop. */
  constructor(wire: Wire, kill: (why: string) => void, bounds: CallBounds = limits) {
    this.#slots = new CallSlots(bounds.callsInFlight, bounds.callsWaiting);
    this.#wire = wire;
    this.#kill = kill;
  }

  /** Whether a handler with this invocation id is running, so that a message may speak for it. */
  has(invocationId: string): boolean {
    return this.#find(invocationId) !== undefined;
  }

  pause(invocationId: string): void {
    this.#find(invocationId)?.deadline.pause();
  }

  resume(invocationId: string): void {
    this.#find(invocationId)?.deadline.resume();
  }

  /** Stops all budgets, or lets them run on. A call that still waits for its turn is held from its turn on. */
  hold(held: boolean): void {
    if (this.#held === held) return;
    this.#held = held;
    for (const { deadline } of this.#running) {
      if (held) deadline.pause();
      else deadline.resume();
    }
  }

  #find(invocationId: string): Call | undefined {
    return this.#running.find((call) => call.invocationId === invocationId);
  }

  /** Resolves when nothing runs or after the grace, milliseconds. */
  async settle(graceMs: number): Promise<void> {
    if (this.#slots.taken === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#idle = resolve;
    const timer = setTimeout(resolve, graceMs);
    await promise;
    clearTimeout(timer);
  }

  /** Runs a handler. Resolves with what the plugin's code did, rejects with `ChildError` for everything else. */
  run(target: Target, context: Readonly<Record<string, unknown>>, options: InvokeOptions): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const call = new Call(this, target, context, options, { resolve, reject });
      call.leave = this.#slots.take(() => call.send(this.#wire));
      if (call.leave === null) call.fail(new ChildError('busy', 'too many calls wait for this plugin'));
      if (options.signal?.aborted) call.giveUp();
    });
  }

  began(call: Call): void {
    this.#running.push(call);
    if (this.#held) call.deadline.pause();
  }

  over(call: Call): void {
    const at = call.sent ? this.#running.indexOf(call) : -1;
    if (at >= 0) {
      const last = this.#running.pop();
      if (last && last !== call) this.#running[at] = last;
    }
    call.leave?.();
    if (this.#slots.taken === 0) this.#idle?.();
  }

  abort(invocationId: string): void {
    this.#wire.notice('abort', { invocationId });
  }

  /** A slow child answers the ping and goes on; a hung one is ended. */
  endIfHung(why: string): void {
    const patience = setTimeout(() => this.#kill(why), PING_WITHIN_MS);
    const enough = (): void => clearTimeout(patience);
    this.#wire.request('ping', {}).then(enough, enough);
  }
}

interface Settle {
  resolve(outcome: Outcome): void;
  reject(error: ChildError): void;
}
const clock = new DeadlineClock();

/** One call, from its place in the queue to its end. */
class Call {
  readonly invocationId: string;
  readonly deadline: Deadline;
  sent = false;
  leave: (() => void) | null = null;
  readonly #calls: ChildCalls;
  readonly #target: Target;
  readonly #context: Readonly<Record<string, unknown>>;
  readonly #budgetMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #settle: Settle;
  #over = false;

  constructor(
    calls: ChildCalls,
    target: Target,
    context: Readonly<Record<string, unknown>>,
    options: InvokeOptions,
    settle: Settle,
  ) {
    this.invocationId = options.invocationId;
    this.#calls = calls;
    this.#target = target;
    this.#context = context;
    this.#budgetMs = Math.max(options.deadlineAt - Date.now(), 0);
    this.#signal = options.signal;
    this.#settle = settle;
    this.deadline = clock.start(this.#budgetMs, () => this.#late());
    this.#signal?.addEventListener('abort', this.giveUp, { once: true });
  }

  send(wire: Wire): void {
    this.sent = true;
    this.#calls.began(this);
    const { invocationId } = this;
    const params = { target: this.#target, invocationId, context: this.#context, deadlineMs: this.#budgetMs };
    wire.call(
      'invoke',
      params,
      (answer) => this.#answered(answer),
      (error) => this.fail(error),
    );
  }

  fail(error: ChildError): void {
    if (this.#end()) this.#settle.reject(error);
  }

  readonly giveUp = (): void => {
    if (this.sent) this.#calls.abort(this.invocationId);
    this.fail(new ChildError('aborted', 'the caller gave up'));
  };

  #late(): void {
    const { kind, name } = this.#target;
    const error = timeoutOf(`${kind} ${name}`, this.#budgetMs, this.deadline.elapsedMs());
    if (this.sent) {
      this.#calls.abort(this.invocationId);
      this.#calls.endIfHung(error.message);
    }
    this.fail(error);
  }

  #answered(answer: unknown): void {
    const outcome = outcomeOf(answer);
    if (outcome === null) this.fail(new ChildError('broken', 'the plugin’s answer was none'));
    else if (this.#end()) this.#settle.resolve(outcome);
  }

  /** Whether it was still open. */
  #end(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.deadline.clear();
    this.#signal?.removeEventListener('abort', this.giveUp);
    this.#calls.over(this);
    return true;
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
