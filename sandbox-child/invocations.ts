/** Handlers that are running, and which of them an awaited continuation belongs to. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { z } from 'zod';
import type { control } from '../sdk/protocol.ts';
import { AbortController, type AbortSignalLike, deadlinePassed } from './abort.ts';
import { explain, text } from './text.ts';

type Outcome = z.infer<(typeof control)['invoke']['result']>;
type Call = z.infer<(typeof control)['invoke']['params']>;

/** A veto's reason is shown to people. Characters; the protocol's own bound. */
const REASON_MAX_CHARS = 500;

export interface Invocations {
  /** The id of the invocation whose code is running, also after an await; null outside of any. */
  current(): string | null;
  /** Runs a handler to its outcome. Never rejects. */
  run(call: Call, handler: (context: unknown) => unknown): Promise<Outcome>;
  /** Ends an invocation that has passed its deadline: its signal aborts and its outcome is a failure. */
  abort(invocationId: string): void;
}

interface Running {
  readonly id: string;
  readonly abandon: (outcome: Outcome) => void;
  controller: AbortController | null;
  vetoed: string | null;
}

/** What `cancel` throws, so that the handler ends there. A handler that catches it has cancelled all the same. */
const VETO = Object.freeze(new Error('this operation was cancelled'));

/** No invocation yet. */
export function trackInvocations(): Invocations {
  const scope = new AsyncLocalStorage<Running>();
  const running = new Map<string, Running>();
  const settle = async (state: Running, context: unknown, handler: (context: unknown) => unknown): Promise<Outcome> => {
    try {
      const answer = await scope.run(state, handler, context);
      if (state.vetoed !== null) return { outcome: 'cancelled', reason: state.vetoed };
      return { outcome: 'answered', answer };
    } catch (error) {
      if (state.vetoed !== null) return { outcome: 'cancelled', reason: state.vetoed };
      return { outcome: 'failed', ...explain(error) };
    }
  };
  return {
    current: () => scope.getStore()?.id ?? null,
    run(call, handler) {
      return new Promise((resolve) => {
        const state: Running = { id: call.invocationId, abandon: resolve, controller: null, vetoed: null };
        running.set(state.id, state);
        settle(state, contextOf(call, state), handler).then((outcome) => {
          running.delete(state.id);
          resolve(outcome);
        });
      });
    },
    abort(invocationId) {
      const state = running.get(invocationId);
      running.delete(invocationId);
      state?.controller?.abort(deadlinePassed());
      state?.abandon({ outcome: 'failed', message: 'the deadline has passed', stack: '' });
    },
  };
}

/** The context as the handler sees it. Fresh from the wire and the handler's own, so only what we add is frozen. */
function contextOf(call: Call, state: Running): object {
  return {
    ...call.context,
    invocationId: call.invocationId,
    get signal(): AbortSignalLike {
      state.controller ??= new AbortController();
      return state.controller.signal;
    },
    cancel: Object.freeze((reason: unknown) => {
      state.vetoed ??= text(reason).slice(0, REASON_MAX_CHARS) || 'no reason given';
      throw VETO;
    }),
  };
}
