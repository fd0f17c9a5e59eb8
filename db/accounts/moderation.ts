/** Actions of operators on authors and plugins. Each is recorded with the operator's name. */
import type { Pool } from 'pg';
import { countInstallations } from '../installations/installations.ts';
import { notifyAccountChanged, notifyInstallationsOfAccount, notifyPluginChanged } from '../postgres/notifications.ts';
import { inTransaction, type Transaction } from '../postgres/pool.ts';
import { findRow } from '../postgres/rows.ts';
import { postponeDueReminders } from '../sessions/reminders.ts';
import { ACCOUNT_COLUMNS, type Account, setOperator } from './accounts.ts';
import { recordAction } from './operator-actions.ts';

/**
 * Verifies an author, or withdraws the verification: the catalog shows the identity of verified authors.
 *
 * @returns false: no account has that name
 */
export function verifyAuthor(pool: Pool, name: string, verified: boolean, by: string | null = null): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    const changed = await tx.query(
      'UPDATE accounts SET verified_at = CASE WHEN $2 THEN coalesce(verified_at, now()) END WHERE name = $1',
      [name, verified],
    );
    if (changed.rowCount !== 1) return false;
    await recordAction(tx, { action: verified ? 'verify' : 'unverify', subject: name, by });
    return true;
  });
}

/** Appoints or demotes an operator. Idempotent. @returns null: no account has that name */
export function changeOperator(
  pool: Pool,
  name: string,
  operator: boolean,
  by: string | null = null,
): Promise<Account | null> {
  return inTransaction(pool, async (tx) => {
    const account = await lockAccount(tx, name);
    if (account === null || account.operator === operator) return account;
    await setOperator(tx, account.id, operator);
    await recordAction(tx, { action: operator ? 'appoint' : 'demote', subject: name, by });
    await notifyAccountChanged(tx, account.id);
    // Without the sandbox, only operators' own plugins run.
    await notifyInstallationsOfAccount(tx, account.id);
    return { ...account, operator };
  });
}

/** Within this time all supervisors know that the plugins of an account may run again. Seconds. */
const RESUMED_WITHIN_S = 5;

/**
 * Suspends an account, or ends the suspension. A suspended account cannot sign in, and nothing of its installations runs;
 * webhooks and events for them are stored and wait. A second call changes the reason.
 *
 * @param reason shown to the user; null: the suspension ends
 * @returns null: no account has that name
 */
export function changeSuspension(
  pool: Pool,
  name: string,
  reason: string | null,
  by: string | null = null,
): Promise<Account | null> {
  return inTransaction(pool, async (tx) => {
    const account = await lockAccount(tx, name);
    if (account === null || account.suspendedReason === reason) return account;
    await tx.query('UPDATE accounts SET suspended_reason = $2 WHERE id = $1', [account.id, reason]);
    if (reason === null) await postponeDueReminders(tx, account.id, RESUMED_WITHIN_S);
    await recordAction(tx, { action: reason === null ? 'resume' : 'suspend', subject: name, reason, by });
    await notifyAccountChanged(tx, account.id);
    await notifyInstallationsOfAccount(tx, account.id);
    return { ...account, suspendedReason: reason };
  });
}

const lockAccount = (tx: Transaction, name: string): Promise<Account | null> =>
  findRow(tx, `SELECT ${ACCOUNT_COLUMNS} FROM accounts WHERE name = $1 FOR UPDATE`, [name]);

export interface Moderated {
  readonly slug: string;
  /** Why it is blocked; null: it is not blocked. */
  readonly reason: string | null;
  /** Number of live installations. */
  readonly installations: number;
  /** False: it was blocked for this reason already, or was not blocked. */
  readonly changed: boolean;
}

/**
 * Blocks a plugin, or ends the block. A blocked plugin is not in the catalog, and none of its children runs. A second call changes
 * the reason. A call that changes nothing is not recorded.
 *
 * @param reason shown to users; null: the block ends
 * @param by the operator's account; null: the user of this process
 * @returns null: no such plugin
 */
export function changeBlock(
  pool: Pool,
  slug: string,
  reason: string | null,
  by: string | null = null,
): Promise<Moderated | null> {
  return inTransaction(pool, async (tx) => {
    const plugin = await findRow<{ id: string; blockedReason: string | null }>(
      tx,
      'SELECT id, blocked_reason AS "blockedReason" FROM plugins WHERE slug = $1 AND deleted_at IS NULL FOR UPDATE',
      [slug],
    );
    if (plugin === null) return null;
    const { id, blockedReason } = plugin;
    const installations = (await countInstallations(tx, [id])).get(id) ?? 0;
    if (blockedReason === reason) return { slug, reason, installations, changed: false };
    await tx.query('UPDATE plugins SET blocked_reason = $2 WHERE id = $1', [id, reason]);
    await recordAction(tx, { action: reason === null ? 'unblock' : 'block', subject: slug, reason, by });
    await notifyPluginChanged(tx, id);
    return { slug, reason, installations, changed: true };
  });
}
