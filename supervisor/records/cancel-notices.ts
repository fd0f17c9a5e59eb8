/**
 * Writes the notices of cancelled hooks after the calls were answered: an answer that waited for a commit would be late when the
 * database is slow, and lost when it is unavailable.
 */
import { randomUUIDv7 } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { classifyDatabaseError, type DatabaseErrorKind } from '../../db/postgres/database-errors.ts';
import { asAccount, asService } from '../../db/postgres/shares.ts';
import { appendNotices, type Notice, type Session } from '../../db/sessions/sessions.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { KeyedLocks } from '../../db/timing/keyed-locks.ts';
import { within } from '../../service/timing/within.ts';

/** Maximum number of notices of an account that wait to be written. With more, an answer waits until its notice is written. */
export const WAITING_NOTICES_MAX = 200;
/** Pause before the failed writes of all sessions are tried again. Milliseconds. */
const RETRY_MS = 250;
/** How long requests of a session wait for its notices. A database that takes longer counts as away. Milliseconds. */
const ANSWER_MS = 2_000;

interface CancelNoticesOptions {
  readonly pool: Pool;
  /** Called with the error of each failed write. */
  readonly onError: (error: Error) => void;
  /** Milliseconds. */
  readonly retryMs?: number;
  /** How long `waitUntilWritten` waits. Milliseconds. */
  readonly answerMs?: number;
}

/** Notices of a session that wait. */
interface WaitingNotices {
  readonly accountId: string;
  readonly notices: Notice[];
}

export class CancelNotices {
  readonly #options: CancelNoticesOptions;
  /** By session: what its next write takes. */
  readonly #gathered = new Map<string, WaitingNotices>();
  /** By session: what could not be written while the database was away. */
  readonly #failed = new Map<string, WaitingNotices>();
  /** Writes, one at a time for each session. */
  readonly #writes = new KeyedLocks();
  readonly #writing = new Set<Promise<unknown>>();
  readonly #waitingOfAccount = new AmountsByKey();
  readonly #closing = new AbortController();
  #isRetrying = false;

  constructor(options: CancelNoticesOptions) {
    this.#options = options;
  }

  /**
   * Resolves at once, or, where too many notices of the account wait, when this one is written.
   *
   * @throws in that case, the error of the write
   */
  async add({ id: sessionId, accountId }: Pick<Session, 'id' | 'accountId'>, notice: Notice): Promise<void> {
    if (this.#waitingOfAccount.get(accountId) >= WAITING_NOTICES_MAX)
      return await appendNotices(this.#options.pool, sessionId, [notice]);
    this.#waitingOfAccount.add(accountId);
    // An id, so that a repeated write adds nothing.
    const added = { ...notice, id: notice.id ?? randomUUIDv7() };
    const waiting = this.#failed.get(sessionId) ?? this.#gathered.get(sessionId);
    if (waiting) waiting.notices.push(added);
    else this.#startWrite(sessionId, { accountId, notices: [added] });
  }

  /**
   * Resolves when the notices that were added to the session are written, so that they come before what is then read or added.
   * Does not wait while the database is unavailable, and at most `answerMs` for one that hangs.
   */
  async waitUntilWritten(sessionId: string): Promise<void> {
    if (this.#failed.has(sessionId)) return;
    const { answerMs = ANSWER_MS } = this.#options;
    const written = this.#writes.run(sessionId, async () => undefined);
    await within(written, answerMs);
  }

  /** Writes what waits. What then fails is lost. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#writing);
    await this.#writeFailed();
  }

  #startWrite(sessionId: string, waiting: WaitingNotices): void {
    this.#gathered.set(sessionId, waiting);
    const writing = this.#writes.run(sessionId, async () => {
      this.#gathered.delete(sessionId);
      const failed = this.#failed.get(sessionId);
      if (failed) failed.notices.push(...waiting.notices);
      else if ((await this.#write(sessionId, waiting)) !== null) this.#keepFailed(sessionId, waiting);
    });
    this.#writing.add(writing);
    void writing.then(() => this.#writing.delete(writing));
  }

  /** @returns why the database did not take them, if a later write may succeed; otherwise null */
  async #write(sessionId: string, { accountId, notices }: WaitingNotices): Promise<DatabaseErrorKind | null> {
    try {
      await appendNotices(this.#options.pool, sessionId, notices);
    } catch (error) {
      this.#options.onError(error as Error);
      const fault = classifyDatabaseError(error);
      if (fault === 'unavailable' || fault === 'busy') return fault;
    }
    this.#waitingOfAccount.subtract(accountId, notices.length);
    return null;
  }

  #keepFailed(sessionId: string, waiting: WaitingNotices): void {
    this.#failed.set(sessionId, waiting);
    if (!this.#isRetrying) void asService(() => this.#retry());
  }

  async #retry(): Promise<void> {
    this.#isRetrying = true;
    while (this.#failed.size > 0 && !this.#closing.signal.aborted) {
      const { retryMs = RETRY_MS } = this.#options;
      await sleep(retryMs, undefined, { signal: this.#closing.signal, ref: false }).catch(() => undefined);
      if (!this.#closing.signal.aborted) await this.#writeFailed();
    }
    this.#isRetrying = false;
  }

  /** One session after the other, until the database is away again. */
  async #writeFailed(): Promise<void> {
    const busyAccounts = new Set<string>();
    for (const [sessionId, waiting] of [...this.#failed]) {
      const { accountId, notices } = waiting;
      if (busyAccounts.has(accountId)) continue;
      const writeNow = async (): Promise<DatabaseErrorKind | null> => {
        const batch = notices.splice(0);
        const fault = await this.#write(sessionId, { accountId, notices: batch });
        if (fault !== null) notices.unshift(...batch);
        else if (notices.length === 0) this.#failed.delete(sessionId);
        return fault;
      };
      const fault = await asAccount(accountId, () => this.#writes.run(sessionId, writeNow));
      if (fault === 'unavailable') return;
      if (fault !== 'busy') continue;
      // It is locked, or its account uses all its connections. The next round, and a stop, begin with other sessions.
      busyAccounts.add(accountId);
      this.#failed.delete(sessionId);
      this.#failed.set(sessionId, waiting);
    }
  }
}
