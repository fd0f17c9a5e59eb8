/** The calls of tools that this process makes. */
import type { CallAnswer, CallKey, CallRow } from '../../db/sessions/tool-calls.ts';
import type { TurnKey } from '../../db/sessions/turns.ts';

/** A call that its runtime performs has no answer yet. */
type Outcome = CallAnswer | { readonly handed: NonNullable<CallRow['handed']> };
interface Running {
  readonly key: CallKey;
  readonly answer: Promise<Outcome>;
  readonly abort: AbortController;
  /** Number of requests that wait for the answer. */
  waiting: number;
}

/**
 * A request that is sent twice at once waits for the same answer. One that comes after the call was aborted waits for its end and
 * begins on its own: the tool may not have run.
 */
export class RunningCalls {
  readonly #running = new Map<string, Running>();

  has({ callId, ...turn }: Omit<CallKey, 'digest'>): boolean {
    return this.#listTurn(turn).some(({ key }) => key.callId === callId);
  }

  /** @param signal aborts when the request is closed: the last one that is closed aborts the call. Undefined: it continues */
  async run(
    key: CallKey,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<Outcome>,
  ): Promise<Outcome> {
    const name = formatKey(key);
    for (let ending = this.#running.get(name); ending?.abort.signal.aborted; ending = this.#running.get(name))
      await ending.answer.catch(() => undefined);
    const running = this.#running.get(name) ?? this.#start(key, work);
    running.waiting += 1;
    const leave = (): void => {
      running.waiting -= 1;
      if (running.waiting === 0) running.abort.abort(signal?.reason);
    };
    if (signal?.aborted) leave();
    else signal?.addEventListener('abort', leave, { once: true });
    return running.answer;
  }

  #start(key: CallKey, work: (signal: AbortSignal) => Promise<Outcome>): Running {
    const name = formatKey(key);
    const abort = new AbortController();
    const answer = work(abort.signal).finally(() => this.#running.delete(name));
    const running = { key, answer, abort, waiting: 0 };
    this.#running.set(name, running);
    return running;
  }

  hasTurn(turn: TurnKey): boolean {
    return this.#listTurn(turn).length > 0;
  }

  /** Aborts the call of a turn, and waits until it has ended. @param callId undefined: all calls of the turn */
  async abort(call: TurnKey & { readonly callId?: string }, reason: string): Promise<void> {
    const aborted = this.#listTurn(call).filter(({ key }) => call.callId === undefined || call.callId === key.callId);
    for (const { abort } of aborted) abort.abort(new Error(reason));
    await Promise.allSettled(aborted.map(({ answer }) => answer));
  }

  #listTurn({ sessionId, turnId }: TurnKey): Running[] {
    return [...this.#running.values()].filter(({ key }) => key.sessionId === sessionId && key.turnId === turnId);
  }
}

/** Ids of runtimes may have any characters. */
const formatKey = ({ sessionId, turnId, callId, digest }: CallKey): string =>
  JSON.stringify([sessionId, turnId, callId, digest]);
