/** Caches the fields of sessions that never change, so that hook calls read no row. */
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import { findSession, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';

/** Maximum number of cached sessions, some hundred bytes each. */
const SESSIONS_MAX = 50_000;

export class SessionCache {
  readonly #pool: Pool;
  readonly #sessions = new LRUCache<string, Session>({ max: SESSIONS_MAX });

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Returns the account's session if it is cached. */
  peek(accountId: string, id: string): Session | null {
    const known = this.#sessions.get(id);
    return known?.accountId === accountId ? known : null;
  }

  /** Finds the account's session; those of other accounts are not found. @throws Problem `not_found` */
  async get(accountId: string, id: string): Promise<Session> {
    const known = this.peek(accountId, id);
    if (known) return known;
    const found = id.includes('\0') ? null : await findSession(this.#pool, id);
    if (found?.accountId !== accountId) throw new Problem('not_found', 'You have no session with this id.');
    this.put(found);
    return found;
  }

  put(session: Session): void {
    this.#sessions.set(session.id, session);
  }

  drop(id: string): void {
    this.#sessions.delete(id);
  }

  /** Clears the cache, because notifications may have been lost. */
  dropAll(): void {
    this.#sessions.clear();
  }
}
