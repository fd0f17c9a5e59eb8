/** The calls of one child: how many at once, until when, and what came of each. */
import type { z } from 'zod';
import { limits } from '../sdk/limits.ts';
import { REASON_MAX_CHARS } from '../sdk/payloads.ts';
import type { control, Target } from '../sdk/protocol.ts';
import { CallSlots } from './call-slots.ts';
import { ChildError, timeoutOf } from './child-errors.ts';
import { Deadline } from './deadline.ts';
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

export class ChildCalls {
  readonly #wire: Wire;
  readonly #kill: (why: string) => void;
  readonly #slots = new CallSlots(limits.callsInFlight, limits.callsWaiting);
  readonly #running = new Map<string, Deadline>();
  #idle: (() => void) | null = null;

  /** `kill` ends the child: its code hangs, and nothing in it can be asked to stop. */
  constructor(wire: Wire, kill: (why: string) => void) {
    this.#wire = wire;
    this.#kill = kill;
  }

  /** Whether a handler with this invocation id is running, so that a message may speak for it. */
  has(invocationId: string): boolean {
    return this.#running.has(invocationId);
  }

  pause(invocationId: string): void {
    this.#running.get(invocationId)?.pause();
  }

  resume(invocationId: string): void {
    this.#running.get(invocationId)?.resume();
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
    const { invocationId, deadlineAt, signal } = options;
    const budgetMs = Math.max(deadlineAt - Date.now(), 0);
    return new Promise((resolve, reject) => {
      const fail = (error: unknown): void => {
        if (call.end()) reject(error);
      };
      const late = (): void => {
        const error = timeoutOf(`${target.kind} ${target.name}`, budgetMs, deadline.elapsedMs());
        if (call.sent) this.#endIfHung(invocationId, error.message);
        fail(error);
      };
      const giveUp = (): void => {
        if (call.sent) this.#wire.notice('abort', { invocationId });
        fail(new ChildError('aborted', 'the caller gave up'));
      };
      const deadline = new Deadline(budgetMs, late);
      const call = this.#open(invocationId, deadline, signal, giveUp);
      const send = (): void => {
        call.sent = true;
        this.#running.set(invocationId, deadline);
        this.#wire.request('invoke', { target, invocationId, context, deadlineMs: budgetMs }).then((answer) => {
          const outcome = outcomeOf(answer);
          if (outcome === null) fail(new ChildError('broken', 'the plugin’s answer was none'));
          else if (call.end()) resolve(outcome);
        }, fail);
      };
      call.leave = this.#slots.take(send);
      if (call.leave === null) fail(new ChildError('busy', 'too many calls wait for this plugin'));
      if (signal?.aborted) giveUp();
    });
  }

  #open(invocationId: string, deadline: Deadline, signal: AbortSignal | undefined, giveUp: () => void): OpenCall {
    signal?.addEventListener('abort', giveUp, { once: true });
    let over = false;
    const call: OpenCall = {
      sent: false,
      leave: null,
      end: () => {
        if (over) return false;
        over = true;
        deadline.clear();
        signal?.removeEventListener('abort', giveUp);
        if (call.sent) this.#running.delete(invocationId);
        call.leave?.();
        if (this.#slots.taken === 0) this.#idle?.();
        return true;
      },
    };
    return call;
  }

  /** A slow child answers the ping and goes on; a hung one is ended. */
  #endIfHung(invocationId: string, why: string): void {
    this.#wire.notice('abort', { invocationId });
    const patience = setTimeout(() => this.#kill(why), PING_WITHIN_MS);
    const enough = (): void => clearTimeout(patience);
    this.#wire.request('ping', {}).then(enough, enough);
  }
}

interface OpenCall {
  sent: boolean;
  leave: (() => void) | null;
  /** Whether it was still open. */
  end(): boolean;
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
