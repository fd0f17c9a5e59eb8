/** The record of what was done in the name of an account: by whom, and by which service for it. */
import type { Page } from '../postgres/cursors.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import { changeRows, type PageQuery, type Queryable, readPage } from '../postgres/rows.ts';

/** Long enough to investigate an incident weeks later, and bounded because it is personal data. */
const RETENTION_DAYS = 90;

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

/** Records an action, and forgets the account's old ones. Call it in the transaction of the action. */
export async function recordAccountAction(
  db: Queryable,
  { accountId, action, subject, detail, tokenId, actor }: NewAction,
): Promise<void> {
  const removeOld = 'DELETE FROM account_actions WHERE account_id = $1 AND at < now() - make_interval(days => $2)';
  await changeRows(db, removeOld, [accountId, RETENTION_DAYS]);
  await changeRows(
    db,
    `INSERT INTO account_actions (id, account_id, action, subject, detail, token_id, actor)
     VALUES ($1, $2, $3, $4, $5, $6, $7)`,
    [orderedId(Date.now()), accountId, action, subject, detail, tokenId, actor],
  );
}

/** Newest first. */
export const pageAccountActions = (db: Queryable, accountId: string, query: PageQuery): Promise<Page<AccountAction>> =>
  readPage<AccountAction>(
    db,
    `SELECT id, at, action, subject, detail, token_id AS "tokenId", actor FROM account_actions
      WHERE account_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [accountId],
    query,
  );
