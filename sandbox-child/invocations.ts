/** Handlers that are running, and which of them an awaited continuation belongs to. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { z } from 'zod';
import type { control } from '../sdk/contract/protocol.ts';
import { AbortController, type AbortSignalLike, deadlinePassed } from './abort.ts';
import { explain, text } from './text.ts';

export type Outcome = z.infer<(typeof control)['invoke']['result']>;
type Call = z.infer<(typeof control)['invoke']['params']>;

/** A veto's reason is shown to people. Characters; the protocol's own bound. */
const REASON_MAX_CHARS = 500;

export interface Invocations {
  /** The id of the invocation whose code is running, also after an await; null outside of any. */
  current(): string | null;
  /**
   * Runs a handler and tells its outcome, once: at once where the handler is not asynchronous, so that a plain hook
   * costs no turn of the event loop. `done` may throw, for an answer that cannot be sent; that is then the outcome.
   */
  run(call: Call, handler: (context: unknown) => unknown, done: (outcome: Outcome) => void): void;
  /** Ends an invocation that has passed its deadline: its signal aborts and its outcome is a failure. */
  abort(invocationId: string): void;
}

interface Running {
  readonly id: string;
  readonly done: (outcome: Outcome) => void;
  controller: AbortController | null;
  vetoed: string | null;
  over: boolean;
}

/** What `cancel` throws, so that the handler ends there. A handler that catches it has cancelled all the same. */
const VETO = Object.freeze(new Error('this operation was cancelled'));

/** No invocation yet. */
export function trackInvocations(): Invocations {
  const scope = new AsyncLocalStorage<Running>();
  // Sixteen at most.
  const running: Running[] = [];
  const finish = (state: Running, outcome: Outcome): void => {
    if (state.over) return;
    state.over = true;
    const last = running.pop();
    if (last && last !== state) running[running.indexOf(state)] = last;
    try {
      state.done(state.vetoed === null ? outcome : { outcome: 'cancelled', reason: state.vetoed });
    } catch (error) {
      state.done({ outcome: 'failed', ...explain(error) });
    }
  };
  const fail = (state: Running, error: unknown): void => finish(state, { outcome: 'failed', ...explain(error) });
  return {
    current: () => scope.getStore()?.id ?? null,
    run(call, handler, done) {
      const state: Running = { id: call.invocationId, done, controller: null, vetoed: null, over: false };
      running.push(state);
      try {
        const context = isVetoable(call) ? new VetoableContext(call.context, state) : new Context(call.context, state);
        const answer = scope.run(state, handler, context);
        if (!isPromised(answer)) finish(state, { outcome: 'answered', answer });
        else {
          const kept = (value: unknown): void => finish(state, { outcome: 'answered', answer: value });
          Promise.resolve(answer).then(kept, (error) => fail(state, error));
        }
      } catch (error) {
        fail(state, error);
      }
    },
    abort(invocationId) {
      const state = running.find(({ id }) => id === invocationId);
      if (!state) return;
      state.controller?.abort(deadlinePassed());
      fail(state, deadlinePassed());
    },
  };
}

const isPromised = (answer: unknown): boolean => typeof answer === 'object' && answer !== null && 'then' in answer;

/** What happened has happened: an event cannot be refused, nor can a vendor's request. */
const isVetoable = ({ target: { kind } }: Call): boolean => kind !== 'event' && kind !== 'channel';

/** The context as the handler sees it: fresh from the wire and the handler's own. */
class Context {
  readonly #state: Running;

  constructor(fields: object, state: Running) {
    this.#state = state;
    Object.assign(this, fields);
  }

  get signal(): AbortSignalLike {
    this.#state.controller ??= new AbortController();
    return this.#state.controller.signal;
  }
}

class VetoableContext extends Context {
  /** An own property, so that `({ cancel }) => …` works. */
  readonly cancel: (reason: unknown) => never;

  constructor(fields: object, state: Running) {
    super(fields, state);
    this.cancel = (reason) => {
      state.vetoed ??= text(reason).slice(0, REASON_MAX_CHARS) || 'no reason given';
      throw VETO;
    };
  }
}
for (const { prototype } of [Context, VetoableContext]) {
  Reflect.deleteProperty(prototype, 'constructor');
  Object.freeze(prototype);
}
