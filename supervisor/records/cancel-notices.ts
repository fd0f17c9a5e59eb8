/**
 * Writes the notices of cancelled hooks after the calls were answered: an answer that waits for a commit is late where the
 * database is slow, and lost where it is away.
 */
import { randomUUIDv7 } from 'node:crypto';
import type { Pool } from 'pg';
import { appendNotices, type Notice, type Session } from '../../db/sessions/sessions.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { KeyedLocks } from '../../db/timing/keyed-locks.ts';
import type { RetryingWriter } from '../../service/timing/retrying-writer.ts';

/** Notices of an account that wait to be written. Beyond it, an answer waits until its notice is written. */
export const WAITING_NOTICES_MAX = 200;

interface CancelNoticesOptions {
  readonly pool: Pool;
  readonly writes: Pick<RetryingWriter, 'write'>;
  /** Called with the error of a write that is given up. */
  readonly onError: (error: Error) => void;
}

export class CancelNotices {
  readonly #options: CancelNoticesOptions;
  /** Notices that the next write of a session takes. */
  readonly #gathered = new Map<string, Notice[]>();
  /** Attempts to write, one at a time for each session. */
  readonly #attempts = new KeyedLocks();
  readonly #writing = new Set<Promise<void>>();
  readonly #waitingOfAccount = new AmountsByKey();

  constructor(options: CancelNoticesOptions) {
    this.#options = options;
  }

  /**
   * Resolves at once, or, where too many notices of the account wait, when this one is written.
   *
   * @throws in that case, the error of the write
   */
  async add(session: Pick<Session, 'id' | 'accountId'>, notice: Notice): Promise<void> {
    // An id, so that a repeated write adds nothing.
    const added = { ...notice, id: notice.id ?? randomUUIDv7() };
    if (this.#waitingOfAccount.get(session.accountId) >= WAITING_NOTICES_MAX)
      return this.#tryWrite(session.id, [added]);
    this.#waitingOfAccount.add(session.accountId);
    const gathered = this.#gathered.get(session.id);
    if (gathered) gathered.push(added);
    else this.#startWrite(session, [added]);
  }

  /**
   * Resolves when the notices that were added to the session are written: they come before what is then read or added. After a
   * failed attempt it does not wait for the next one.
   */
  settle(sessionId: string): Promise<void> {
    return this.#attempts.run(sessionId, async () => undefined);
  }

  /** Resolves when all are written or given up. */
  async close(): Promise<void> {
    await Promise.all(this.#writing);
  }

  #startWrite({ id, accountId }: Pick<Session, 'id' | 'accountId'>, notices: Notice[]): void {
    this.#gathered.set(id, notices);
    const { writes, onError } = this.#options;
    const end = (): void => {
      this.#waitingOfAccount.subtract(accountId, notices.length);
      this.#writing.delete(writing);
    };
    const writing = writes
      .write(() => this.#tryWrite(id, notices))
      .catch(onError)
      .then(end);
    this.#writing.add(writing);
  }

  #tryWrite(sessionId: string, notices: readonly Notice[]): Promise<void> {
    return this.#attempts.run(sessionId, () => {
      if (this.#gathered.get(sessionId) === notices) this.#gathered.delete(sessionId);
      return appendNotices(this.#options.pool, sessionId, notices);
    });
  }
}
