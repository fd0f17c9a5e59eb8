/** Records what operators did, when and why. Rows are never changed. */

import { hostname, userInfo } from 'node:os';
import type { ClientBase } from 'pg';
import { listRows, type Queryable } from '../postgres/rows.ts';

interface NewAction {
  readonly action: string;
  readonly subject: string;
  readonly reason?: string | null;
  /** The operator's account, for an action through the REST interface. Null: the user of this process. */
  readonly by?: string | null;
}
interface OperatorAction {
  /** Later actions have greater ones. */
  readonly id: string;
  /** The operating system's user and machine, or the name of the operator's account and ` (REST)`. */
  readonly by: string;
  readonly action: string;
  /** What the action changed, such as the name of an account or the slug of a plugin. */
  readonly subject: string;
  readonly reason: string | null;
  /** ISO 8601. */
  readonly at: string;
}

/** Records an action. @param tx the transaction of the action */
export async function recordAction(
  tx: ClientBase,
  { action, subject, reason = null, by = null }: NewAction,
): Promise<void> {
  const actor = by === null ? describeProcessUser(process.env.SUDO_USER) : `${by} (REST)`;
  const insert = 'INSERT INTO operator_actions (by, action, subject, reason) VALUES ($1, $2, $3, $4)';
  await tx.query(insert, [actor, action, subject, reason]);
}

/** Lists the last actions, newest first. @param before only those with smaller ids; null: all */
export const listActions = (db: Queryable, limit: number, before: number | null = null): Promise<OperatorAction[]> =>
  listRows(
    db,
    `SELECT id, by, action, subject, reason, at FROM operator_actions WHERE $2::bigint IS NULL OR id < $2
      ORDER BY id DESC LIMIT $1`,
    [limit, before],
  );

/** @param sudoer the user who started this process with sudo */
function describeProcessUser(sudoer: string | undefined): string {
  const name = sudoer ? `${sudoer} as ${readUserName()}` : readUserName();
  return `${name}@${hostname()}`;
}

function readUserName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container, the user id may have no name.
    return `uid ${process.getuid?.() ?? '?'}`;
  }
}
