/** Caches the rows of sessions, so that hook calls read none. A change notification drops an entry. */
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import { findSession, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { readOrLastKnown } from '../../service/storage/last-known.ts';

/** Maximum number of cached sessions, some hundred bytes each. */
const SESSIONS_MAX = 50_000;

export class SessionCache {
  readonly #pool: Pool;
  readonly #isNotified: () => boolean;
  readonly #sessions = new LRUCache<string, Session>({ max: SESSIONS_MAX });
  /** Counts the drops, so that a row that was read before one is not cached after it. */
  #drops = 0;

  /** @param isNotified whether this process is notified of changes. While it is not, what it knows may be old */
  constructor(pool: Pool, isNotified: () => boolean) {
    this.#pool = pool;
    this.#isNotified = isNotified;
  }

  /** Returns the account's session if it is cached. */
  peek(accountId: string, id: string): Session | null {
    const known = this.#sessions.get(id);
    return known?.accountId === accountId ? known : null;
  }

  /** Finds the account's session; those of other accounts are not found. @throws Problem `not_found` */
  async get(accountId: string, id: string): Promise<Session> {
    const known = this.peek(accountId, id);
    if (known && this.#isNotified()) return known;
    const drops = this.#drops;
    const found = id.includes('\0') ? null : await readOrLastKnown(findSession(this.#pool, id), known ?? undefined);
    if (found?.accountId !== accountId) throw new Problem('not_found', 'You have no session with this id.');
    if (drops === this.#drops) this.put(found);
    return found;
  }

  put(session: Session): void {
    this.#sessions.set(session.id, session);
  }

  drop(id: string): void {
    this.#drops += 1;
    this.#sessions.delete(id);
  }

  /** Clears the cache, because notifications may have been lost. */
  dropAll(): void {
    this.#drops += 1;
    this.#sessions.clear();
  }
}
