/** Deletes sessions together with their agent, channel or installation, and sends `sessionDeleted` to plugins. */

import type { Pool } from 'pg';
import { identifyEvent, insertEvents } from '../installations/events.ts';
import { findSubscribers, type Subscriber } from '../installations/subscribers.ts';
import type { Queues } from '../jobs/queues.ts';
import { notifySessionsDeleted } from '../postgres/notifications.ts';
import { inTransaction, readingPool, type Transaction, type WritingPool } from '../postgres/pool.ts';
import { changeRows, hasRow, SWEEP_BATCH } from '../postgres/rows.ts';
import { KeyedLocks } from '../timing/keyed-locks.ts';
import { recordChanges } from './session-changes.ts';

/** Sessions per statement: limits its memory and duration. */
const BATCH = 1_000;

interface DeletedSession {
  readonly sessionId: string;
  readonly agentId: string;
}

/** Take this lock before any row lock: two removals of overlapping sessions would deadlock without it. */
export const nameSessionsLock = (accountId: string): string => `sessions:${accountId}`;

/**
 * Deletes sessions with their transcripts. Notifies supervisors and the account's plugins with the commit. Skips sessions
 * that are deleted already. The caller must hold `nameSessionsLock`.
 */
export async function deleteSessions(
  tx: Transaction,
  queues: Queues,
  { accountId, sessionIds }: { readonly accountId: string; readonly sessionIds: readonly string[] },
): Promise<void> {
  if (sessionIds.length === 0) return;
  const subscribers = await findSubscribers(tx, accountId, 'sessionDeleted');
  for (let start = 0; start < sessionIds.length; start += BATCH) {
    const batch = sessionIds.slice(start, start + BATCH);
    await recordChanges(tx, batch, 'deleted');
    const deleted = await tx.query<DeletedSession>(
      `DELETE FROM sessions WHERE account_id = $1 AND id = ANY ($2) RETURNING id AS "sessionId", agent_id AS "agentId"`,
      [accountId, batch],
    );
    await notifySessionsDeleted(
      tx,
      deleted.rows.map(({ sessionId }) => sessionId),
    );
    for (const subscriber of subscribers) await recordSessionsDeleted(tx, queues, accountId, subscriber, deleted.rows);
  }
}

/** One at a time of an account: each keeps a connection busy. */
const emptying = new KeyedLocks();

/**
 * Deletes the messages of sessions that are about to be deleted or cleared, if there are many: in batches, because one statement
 * would run into the time limit and keep others waiting. If it is interrupted, the sessions still exist, and the next removal
 * continues.
 *
 * @param signal ends it between two batches
 * @returns how many
 */
export async function emptySessions(
  pool: WritingPool,
  { accountId, sessionIds }: { readonly accountId: string; readonly sessionIds: readonly string[] },
  signal?: AbortSignal,
): Promise<number> {
  let removed = 0;
  for (let start = 0; start < sessionIds.length; start += BATCH) {
    const ids = sessionIds.slice(start, start + BATCH);
    if (await hasManyMessages(readingPool(pool), ids))
      removed += await emptying.run(accountId, () => deleteMessages(pool, ids, signal));
  }
  return removed;
}

const hasManyMessages = (pool: Pool, sessionIds: readonly string[]): Promise<boolean> =>
  hasRow(pool, `SELECT 1 FROM session_messages WHERE session_id = ANY ($1) OFFSET ${SWEEP_BATCH} LIMIT 1`, [
    sessionIds,
  ]);

async function deleteMessages(
  pool: WritingPool,
  sessionIds: readonly string[],
  signal: AbortSignal | undefined,
): Promise<number> {
  let removed = 0;
  for (let batch = SWEEP_BATCH; batch === SWEEP_BATCH; removed += batch) {
    signal?.throwIfAborted();
    const sql = `WITH batch AS MATERIALIZED (
        SELECT session_id, position FROM session_messages WHERE session_id = ANY ($1)
         LIMIT ${SWEEP_BATCH} FOR UPDATE SKIP LOCKED)
      DELETE FROM session_messages m USING batch b WHERE m.session_id = b.session_id AND m.position = b.position`;
    batch = await inTransaction(pool, (tx) => changeRows(tx, sql, [sessionIds]));
  }
  return removed;
}

async function recordSessionsDeleted(
  tx: Transaction,
  queues: Queues,
  accountId: string,
  subscriber: Subscriber,
  deleted: readonly DeletedSession[],
): Promise<void> {
  const { installationId } = subscriber;
  const type = 'sessionDeleted';
  const recorded = deleted.map((data) => identifyEvent({ ...subscriber, accountId, type, data }));
  await insertEvents(tx, recorded);
  const jobs = recorded.map(({ id: eventId }) => ({ eventId, installationId }));
  await queues.sendAll(tx, 'events', jobs, { id: installationId, accountId });
}
