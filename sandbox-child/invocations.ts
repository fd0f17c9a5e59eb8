/** Handlers that are running, and which of them an awaited continuation belongs to. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { z } from 'zod';
import type { control } from '../sdk/contract/protocol.ts';
import { AbortController, type AbortSignalLike, abortReason } from './abort.ts';
import type { Cancellation } from './supervisor-connection.ts';
import { explain, text } from './text.ts';

export type Outcome = z.infer<(typeof control)['invoke']['result']>;
type Call = z.infer<(typeof control)['invoke']['params']>;

/** A veto's reason is shown to people. Characters; the protocol's own bound. */
const REASON_MAX_CHARS = 500;

export interface Invocations {
  /** The id of the invocation whose code is running, also after an await; null outside of any. */
  current(): string | null;
  /**
   * Runs a handler and answers its outcome, without a promise where the handler is not asynchronous. A cancellation
   * aborts the handler's signal and ends the invocation as failed. Neither throws nor rejects.
   */
  run(call: Call, handler: (context: unknown) => unknown, cancellation: Cancellation): Outcome | Promise<Outcome>;
}

/** What `cancel` throws, so that the handler ends there. A handler that catches it has cancelled all the same. */
const VETO = Object.freeze(new Error('this operation was cancelled'));

const failed = (error: unknown): Outcome => ({ outcome: 'failed', ...explain(error) });

/** No invocation yet. */
export function trackInvocations(): Invocations {
  const scope = new AsyncLocalStorage<Running>();
  return {
    current: () => scope.getStore()?.id ?? null,
    run(call, handler, cancellation) {
      const running = new Running(call.invocationId, cancellation);
      try {
        const context = isVetoable(call)
          ? new VetoableContext(call.context, running)
          : new Context(call.context, running);
        const answer = scope.run(running, handler, context);
        return isPromised(answer) ? running.follow(answer) : running.outcomeOf({ outcome: 'answered', answer });
      } catch (error) {
        return running.outcomeOf(failed(error));
      }
    },
  };
}

/** One invocation. */
class Running {
  readonly id: string;
  vetoReason: string | null = null;
  readonly #cancellation: Cancellation;
  #controller: AbortController | null = null;

  constructor(id: string, cancellation: Cancellation) {
    this.id = id;
    this.#cancellation = cancellation;
  }

  /** Made when the handler first asks: most never do. */
  get signal(): AbortSignalLike {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      const { reason } = this.#cancellation;
      if (reason !== null) this.#controller.abort(abortReason(reason));
    }
    return this.#controller.signal;
  }

  outcomeOf(outcome: Outcome): Outcome {
    return this.vetoReason === null ? outcome : { outcome: 'cancelled', reason: this.vetoReason };
  }

  /** What comes of a handler that answered a promise: its answer, or its cancellation where that comes first. */
  follow(answer: unknown): Promise<Outcome> {
    return new Promise((resolve) => {
      const end = (outcome: Outcome): void => resolve(this.outcomeOf(outcome));
      this.#cancellation.onCancellationRequested((reason) => {
        const error = abortReason(reason);
        this.#controller?.abort(error);
        end(failed(error));
      });
      Promise.resolve(answer).then(
        (value) => end({ outcome: 'answered', answer: value }),
        (error) => end(failed(error)),
      );
    });
  }
}

const isPromised = (answer: unknown): boolean => typeof answer === 'object' && answer !== null && 'then' in answer;

/** What happened has happened: an event cannot be refused, nor can a vendor's request. */
const isVetoable = ({ target: { kind } }: Call): boolean => kind !== 'event' && kind !== 'channel';

/** The context as the handler sees it: fresh from the wire and the handler's own. */
class Context {
  readonly #running: Running;

  constructor(fields: object, running: Running) {
    this.#running = running;
    Object.assign(this, fields);
  }

  get signal(): AbortSignalLike {
    return this.#running.signal;
  }
}

class VetoableContext extends Context {
  /** An own property, so that `({ cancel }) => …` works. */
  readonly cancel: (reason: unknown) => never;

  constructor(fields: object, running: Running) {
    super(fields, running);
    this.cancel = (reason) => {
      running.vetoReason ??= text(reason).slice(0, REASON_MAX_CHARS) || 'no reason given';
      throw VETO;
    };
  }
}
for (const { prototype } of [Context, VetoableContext]) {
  Reflect.deleteProperty(prototype, 'constructor');
  Object.freeze(prototype);
}
