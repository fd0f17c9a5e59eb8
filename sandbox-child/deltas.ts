/** Runs handlers that are async generators: sends each delta that they yield, and returns their result. */
import type { z } from 'zod';
import type { control } from '../sdk/contract/protocol.ts';
import type { AbortSignal } from './abort.ts';
import { DELTAS_UNREAD_MAX } from './json-rpc.ts';
import type { Handler } from './signatures.ts';
import type { SupervisorConnection } from './supervisor-connection.ts';

type Call = Pick<z.infer<(typeof control)['invoke']['params']>, 'invocationId' | 'wantsDeltas'>;

export class Deltas {
  readonly #supervisor: SupervisorConnection;
  readonly #senders = new Map<string, DeltaSender>();

  constructor(supervisor: SupervisorConnection) {
    this.#supervisor = supervisor;
  }

  /** Adapts a handler that may be an async generator to invocations, which have one answer. */
  adapt(handler: Handler, { invocationId, wantsDeltas }: Call): Handler {
    return async (context) => {
      // Read before the plugin can replace it.
      const { signal } = context as { readonly signal: AbortSignal };
      const answer = await handler(context);
      if (!isAsyncGenerator(answer)) return answer;
      const end = (): void => {
        // The generator may never end.
        this.#senders.delete(invocationId);
        answer.return?.(undefined);
      };
      // The call may have been cancelled before the handler returned the generator.
      if (signal.aborted) end();
      else signal.addEventListener('abort', end, { once: true });
      if (!wantsDeltas) return readToEnd(answer, signal);
      const sender = new DeltaSender(this.#supervisor, invocationId, signal);
      this.#senders.set(invocationId, sender);
      try {
        return await readToEnd(answer, signal, sender);
      } finally {
        this.#senders.delete(invocationId);
      }
    };
  }

  /** One delta of this invocation was read. */
  recordRead(invocationId: string): void {
    this.#senders.get(invocationId)?.recordRead();
  }
}

/** The deltas of one invocation. */
class DeltaSender {
  readonly #supervisor: SupervisorConnection;
  readonly #invocationId: string;
  readonly #signal: AbortSignal;
  #unread = 0;
  #resume: (() => void) | null = null;

  constructor(supervisor: SupervisorConnection, invocationId: string, signal: AbortSignal) {
    this.#supervisor = supervisor;
    this.#invocationId = invocationId;
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#resume?.(), { once: true });
  }

  /** Resolves when the delta is sent, which waits until earlier ones were read. Rejects if it is not JSON. */
  async send(delta: unknown): Promise<void> {
    if (this.#unread >= DELTAS_UNREAD_MAX) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#resume = resolve;
      await promise;
    }
    if (this.#signal.aborted) return;
    this.#unread += 1;
    await this.#supervisor.sendDelta(this.#invocationId, delta);
  }

  recordRead(): void {
    this.#unread -= 1;
    this.#resume?.();
  }
}

type Generator = Pick<AsyncGenerator<unknown, unknown, void>, 'next'> & Partial<Pick<AsyncGenerator, 'return'>>;

const isAsyncGenerator = (answer: unknown): answer is Generator =>
  typeof answer === 'object' && answer !== null && Symbol.asyncIterator in answer && 'next' in answer;

/** @returns the generator's result; undefined after an abort, when its caller is gone */
async function readToEnd(generator: Generator, signal: AbortSignal, sender?: DeltaSender): Promise<unknown> {
  while (!signal.aborted) {
    const { done, value } = await generator.next();
    if (done) return value;
    await sender?.send(value).catch((error: unknown) => {
      // The plugin ends its own requests. Their end is not awaited: the failure is certain.
      generator.return?.(undefined);
      throw error;
    });
  }
  return undefined;
}
