/** Runs handlers and tracks which invocation the current code belongs to, also after an await. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { z } from 'zod';
import type { control } from '../sdk/contract/protocol.ts';
import { AbortController, type AbortSignal, createAbortReason } from './abort.ts';
import type { Cancellation } from './supervisor-connection.ts';
import { describeError, text } from './text.ts';

export type Outcome = z.infer<(typeof control)['invoke']['result']>;
type Call = z.infer<(typeof control)['invoke']['params']>;

/** Longest reason of a veto, characters: the protocol's limit. */
const REASON_MAX_CHARS = 500;

export interface Invocations {
  /** Id of the invocation whose code is running, also after an await; null outside of invocations. */
  getCurrentId(): string | null;
  /**
   * Runs a handler and returns its outcome, without a promise if the handler is synchronous. A cancellation aborts the
   * handler's signal and ends the invocation as failed. Neither throws nor rejects.
   */
  run(call: Call, handler: (context: unknown) => unknown, cancellation: Cancellation): Outcome | Promise<Outcome>;
}

/** Thrown by `cancel` to end the handler. The operation is cancelled even if the handler catches it. */
const VETO = Object.freeze(new Error('this operation was cancelled'));

const toFailedOutcome = (error: unknown): Outcome => ({ outcome: 'failed', ...describeError(error) });

/** @param announce called when a handler begins before those of other invocations have answered */
export function trackInvocations(announce: (invocationId: string) => void): Invocations {
  const scope = new AsyncLocalStorage<RunningInvocation>();
  let unanswered = 0;
  const countAnswered = (outcome: Outcome): Outcome => {
    unanswered -= 1;
    return outcome;
  };
  return {
    getCurrentId: () => scope.getStore()?.id ?? null,
    run(call, handler, cancellation) {
      const running = new RunningInvocation(call.invocationId, cancellation);
      if (unanswered > 0) announce(call.invocationId);
      try {
        const answer = scope.run(running, handler, completeContext(call, running));
        if (!isThenable(answer)) return running.applyVeto({ outcome: 'answered', answer });
        unanswered += 1;
        return running.awaitAnswer(answer).then(countAnswered);
      } catch (error) {
        return running.applyVeto(toFailedOutcome(error));
      }
    },
  };
}

class RunningInvocation {
  readonly id: string;
  vetoReason: string | null = null;
  /** Whether the outcome is known, so that a veto would come too late. */
  hasEnded = false;
  readonly #cancellation: Cancellation;
  readonly #controller = new AbortController();

  constructor(id: string, cancellation: Cancellation) {
    this.id = id;
    this.#cancellation = cancellation;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  applyVeto(outcome: Outcome): Outcome {
    this.hasEnded = true;
    return this.vetoReason === null ? outcome : { outcome: 'cancelled', reason: this.vetoReason };
  }

  /** Resolves with the outcome of an asynchronous handler, or with its cancellation if that comes first. */
  awaitAnswer(answer: unknown): Promise<Outcome> {
    return new Promise((resolve) => {
      const end = (outcome: Outcome): void => resolve(this.applyVeto(outcome));
      this.#cancellation.onCancellationRequested((reason) => {
        const error = createAbortReason(reason);
        this.#controller.abort(error);
        end(toFailedOutcome(error));
      });
      try {
        Promise.resolve(answer).then(
          (value) => end({ outcome: 'answered', answer: value }),
          (error) => end(toFailedOutcome(error)),
        );
      } catch (error) {
        // A promise may have its own `then` or `constructor`, which throws.
        end(toFailedOutcome(error));
      }
    });
  }
}

const isThenable = (answer: unknown): boolean => typeof answer === 'object' && answer !== null && 'then' in answer;

/** Each has a stack, which leads to the call that the author forgot to await. */
const createLateVetoError = ({ kind, name }: Call['target'], reason: string): Error =>
  new Error(
    `ctx.cancel(${JSON.stringify(reason)}) was called after ${kind === 'hook' ? name : `${kind}.${name}`} had ended, so it cancelled nothing. Await what calls it, so that the handler ends later`,
  );

/** Events and webhook requests have already happened and cannot be cancelled. */
const isVetoable = ({ kind }: Call['target']): boolean => kind !== 'event' && kind !== 'channel';

/**
 * Adds `signal` and `cancel` to the context of a call. They are own properties, so that `({ signal, cancel }) => …` and `{ ...ctx }`
 * work. With a getter, V8 would keep each context as a dictionary. `cancel` has a variable, because V8 allocates a function that is
 * written where it is assigned to a property among old objects, where it would hold its call until a full collection. Either costs a
 * tenth of a hook's time.
 */
function completeContext({ context, target }: Call, running: RunningInvocation): object {
  const completed: Record<string, unknown> = context;
  completed.signal = running.signal;
  if (!isVetoable(target)) return completed;
  const cancel = (reason: unknown): never => {
    const given = text(reason ?? '').slice(0, REASON_MAX_CHARS) || 'no reason given';
    if (running.hasEnded) throw createLateVetoError(target, given);
    running.vetoReason ??= given;
    throw VETO;
  };
  completed.cancel = cancel;
  return completed;
}
