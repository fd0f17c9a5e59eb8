/** The record of what was done in the name of an account: by whom, and by which service for it. */
import type { Pool } from 'pg';
import { SECOND } from '../../sdk/contract/limits.ts';
import type { Page } from '../postgres/cursors.ts';
import { deleteOldRows } from '../postgres/old-rows.ts';
import { createIdAt, orderedId } from '../postgres/ordered-id.ts';
import { changeRows, type PageQuery, type Queryable, readPage } from '../postgres/rows.ts';

/** Long enough to investigate an incident weeks later, and bounded because it is personal data. Milliseconds. */
const RETENTION_MS = 90 * 24 * 3_600 * SECOND;

export interface AccountAction {
  readonly id: string;
  readonly at: string;
  readonly action: string;
  /** The object of the action, such as the id of an SSH host. */
  readonly subject: string;
  readonly detail: string | null;
  /** The record of the request's token; null: it had none. */
  readonly tokenId: string | null;
  /** The service that acted for the account; null: the account itself. */
  readonly actor: string | null;
}
type NewAction = Omit<AccountAction, 'id' | 'at'> & { readonly accountId: string };

/** Records an action. Call it in the transaction of the action. */
export async function recordAccountAction(
  db: Queryable,
  { accountId, action, subject, detail, tokenId, actor }: NewAction,
): Promise<void> {
  await changeRows(
    db,
    `INSERT INTO account_actions (id, account_id, action, subject, detail, token_id, actor)
     VALUES ($1, $2, $3, $4, $5, $6, $7)`,
    [orderedId(Date.now()), accountId, action, subject, detail, tokenId, actor],
  );
}

/**
 * Deletes the actions past their retention, also of accounts that do nothing any more. Their ids, which begin with their time, lead to
 * them; the clock of the database decides, because that of this process may be wrong.
 */
export const sweepAccountActions = (pool: Pool): Promise<void> =>
  deleteOldRows(pool, 'account_actions', 'id', `id < $1 AND at < now() - $2 * interval '1 millisecond'`, [
    createIdAt(Date.now() - RETENTION_MS),
    RETENTION_MS,
  ]);

/** Newest first. */
export const pageAccountActions = (db: Queryable, accountId: string, query: PageQuery): Promise<Page<AccountAction>> =>
  readPage<AccountAction>(
    db,
    `SELECT id, at, action, subject, detail, token_id AS "tokenId", actor FROM account_actions
      WHERE account_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [accountId],
    query,
  );
