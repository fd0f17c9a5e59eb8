/** The to-dos of an account, which all its agents share. */
import type { Pool } from 'pg';
import type { z } from 'zod';
import type { todo, todoFields } from '../../sdk/contract/payloads.ts';
import { lockAccount } from '../accounts/accounts.ts';
import { throwQuotaProblem } from '../accounts/usage.ts';
import type { Page } from '../postgres/cursors.ts';
import { inTransaction, type WritingPool } from '../postgres/pool.ts';
import { type Bounded, changeRows, findRow, type PageQuery, readPositionPage } from '../postgres/rows.ts';

/** The fields that plugins see. */
export type Todo = z.output<typeof todo>;
export interface TodoRow extends Todo {
  readonly digest: string;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly position: string;
}
export interface TodoFields extends z.output<typeof todoFields> {
  readonly assigneeAgentId: string | null;
}
export interface TodoKey {
  readonly accountId: string;
  readonly todoId: string;
}

const TODO = `id, title, notes, due_at AS "dueAt", assignee_agent_id AS "assigneeAgentId", done, digest,
  created_by AS "createdBy", created_at AS "createdAt", updated_at AS "updatedAt", position::text AS position`;

export const findTodo = (pool: Pool, { accountId, todoId }: TodoKey): Promise<TodoRow | null> =>
  findRow(pool, `SELECT ${TODO} FROM todos WHERE account_id = $1 AND id = $2`, [accountId, todoId]);

/** @returns null: the account has `maxTodos` to-dos @throws Problem `quota_exceeded` */
export const insertTodo = (
  pool: WritingPool,
  { accountId, todoId }: TodoKey,
  { title, notes, dueAt, assigneeAgentId }: TodoFields,
  { digest, createdBy, maxTodos }: Pick<TodoRow, 'digest' | 'createdBy'> & { readonly maxTodos: number },
): Promise<TodoRow | null> =>
  inTransaction(pool, async (tx) => {
    await lockAccount(tx, accountId);
    return findRow<TodoRow>(
      tx,
      `INSERT INTO todos (account_id, id, title, notes, due_at, assignee_agent_id, digest, created_by)
       SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE (SELECT count(*) FROM todos WHERE account_id = $1) < $9
       RETURNING ${TODO}`,
      [accountId, todoId, title, notes, dueAt, assigneeAgentId, digest, createdBy, maxTodos],
    );
  }).catch(throwQuotaProblem);

/** @returns null: the to-do was deleted meanwhile @throws Problem `quota_exceeded` */
export const updateTodo = (
  pool: WritingPool,
  { accountId, todoId }: TodoKey,
  { title, notes, dueAt, assigneeAgentId, done }: TodoFields & { readonly done: boolean },
): Promise<TodoRow | null> =>
  inTransaction(pool, (tx) =>
    findRow<TodoRow>(
      tx,
      `UPDATE todos SET title = $3, notes = $4, due_at = $5, assignee_agent_id = $6, done = $7, updated_at = now()
        WHERE account_id = $1 AND id = $2 RETURNING ${TODO}`,
      [accountId, todoId, title, notes, dueAt, assigneeAgentId, done],
    ),
  ).catch(throwQuotaProblem);

/** @returns false: it was deleted meanwhile */
export const deleteTodo = async (pool: WritingPool, { accountId, todoId }: TodoKey): Promise<boolean> =>
  inTransaction(
    pool,
    async (tx) =>
      (await changeRows(tx, 'DELETE FROM todos WHERE account_id = $1 AND id = $2', [accountId, todoId])) > 0,
  );

interface TodoFilter {
  readonly done?: boolean | undefined;
  readonly assigneeAgentId?: string | undefined;
}

/** Oldest first. */
export const pageTodos = (
  pool: Pool,
  { accountId, done, assigneeAgentId, ...query }: PageQuery & TodoFilter & { readonly accountId: string },
): Promise<Page<TodoRow & Bounded>> =>
  readPositionPage<TodoRow>(
    pool,
    {
      columns: TODO,
      table: 't',
      rows: `SELECT *, stored_bytes AS bytes FROM todos
        WHERE account_id = $1 AND ($2::boolean IS NULL OR done = $2) AND ($3::text IS NULL OR assignee_agent_id = $3)
          AND todos.position > $4 ORDER BY todos.position LIMIT $5`,
    },
    [accountId, done ?? null, assigneeAgentId ?? null],
    query,
  );
