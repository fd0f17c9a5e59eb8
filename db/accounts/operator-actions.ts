/** A record of what operators did: who, when, what, and why. Only added to. */
import { hostname, userInfo } from 'node:os';
import type { ClientBase, Pool } from 'pg';

export interface NewAction {
  readonly action: string;
  readonly subject: string;
  readonly reason?: string | null;
  /** The account that asked for it over REST; null: whoever runs this process. */
  readonly by?: string | null;
}
export interface OperatorAction {
  /** The operating system's user and machine, or the account's name. */
  readonly by: string;
  readonly action: string;
  /** The account's name or the plugin's slug. */
  readonly subject: string;
  readonly reason: string | null;
  /** ISO 8601. */
  readonly at: string;
}

/** Notes an action in the transaction that does it. */
export async function recordAction(
  tx: ClientBase,
  { action, subject, reason = null, by = null }: NewAction,
): Promise<void> {
  await tx.query('INSERT INTO operator_actions (by, action, subject, reason) VALUES ($1, $2, $3, $4)', [
    by === null ? commandUser(process.env.SUDO_USER) : `${by} (console)`,
    action,
    subject,
    reason,
  ]);
}

/** The newest actions first. */
export async function listActions(db: ClientBase | Pool, limit: number): Promise<OperatorAction[]> {
  const found = await db.query<Omit<OperatorAction, 'at'> & { at: Date }>(
    'SELECT by, action, subject, reason, at FROM operator_actions ORDER BY id DESC LIMIT $1',
    [limit],
  );
  return found.rows.map((row) => ({ ...row, at: row.at.toISOString() }));
}

/**
 * Whoever runs this process, as `user@machine`.
 *
 * @param sudoer who became root to run it
 */
export function commandUser(sudoer: string | undefined): string {
  const name = sudoer ? `${sudoer} as ${userName()}` : userName();
  return `${name}@${hostname()}`;
}

/** A user id of a container may have no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? '?'}`;
  }
}
