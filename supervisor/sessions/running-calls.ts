/** The calls of tools that this process makes. */
import type { CallAnswer, CallKey, CallRow } from '../../db/sessions/tool-calls.ts';

/** A call that its runtime performs has no answer yet. */
type Outcome = CallAnswer | { readonly handed: NonNullable<CallRow['handed']> };
interface Running {
  readonly key: CallKey;
  readonly answer: Promise<Outcome>;
  readonly abort: AbortController;
}

/** A request that is sent twice at once waits for the same answer. */
export class RunningCalls {
  readonly #running = new Map<string, Running>();

  has(key: CallKey): boolean {
    return this.#running.has(formatKey(key));
  }

  run(
    key: CallKey,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<Outcome>,
  ): Promise<Outcome> {
    const name = formatKey(key);
    const known = this.#running.get(name);
    if (known) return known.answer;
    const abort = new AbortController();
    const answer = work(signal ? AbortSignal.any([signal, abort.signal]) : abort.signal).finally(() =>
      this.#running.delete(name),
    );
    this.#running.set(name, { key, answer, abort });
    return answer;
  }

  /** Aborts the call of a turn, and waits until it has ended. */
  async abort({ sessionId, turnId, callId }: Omit<CallKey, 'digest'>, reason: string): Promise<void> {
    for (const { key, answer, abort } of this.#running.values()) {
      if (key.sessionId !== sessionId || key.turnId !== turnId || key.callId !== callId) continue;
      abort.abort(new Error(reason));
      await answer.catch(() => undefined);
    }
  }
}

const formatKey = ({ sessionId, turnId, callId, digest }: CallKey): string =>
  [sessionId, turnId, callId, digest].join(' ');
