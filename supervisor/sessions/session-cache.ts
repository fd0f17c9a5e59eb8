/** Sessions in memory, so that a hook call reads no row. The rows are the truth; only what never changes is kept. */
import type { Pool } from 'pg';
import { findSession, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';

/** Sessions kept at most; some hundred bytes each. */
const SESSIONS_MAX = 50_000;

export class SessionCache {
  readonly #pool: Pool;
  readonly #sessions = new Map<string, Session>();

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** The account's session if it is in memory. */
  peek(accountId: string, id: string): Session | null {
    const known = this.#sessions.get(id);
    return known?.accountId === accountId ? known : null;
  }

  /** The account's session. Another account's is not found, like one that never was. @throws Problem `not_found` */
  async get(accountId: string, id: string): Promise<Session> {
    const known = this.peek(accountId, id);
    if (known) return known;
    const found = id.includes('\0') ? null : await findSession(this.#pool, id);
    if (found?.accountId !== accountId) throw new Problem('not_found', 'There is no such session.');
    this.put(found);
    return found;
  }

  put(session: Session): void {
    if (this.#sessions.size >= SESSIONS_MAX) {
      const oldest = this.#sessions.keys().next().value;
      if (oldest !== undefined) this.#sessions.delete(oldest);
    }
    this.#sessions.set(session.id, session);
  }

  drop(id: string): void {
    this.#sessions.delete(id);
  }

  /** Notices may have been missed. */
  dropAll(): void {
    this.#sessions.clear();
  }
}
