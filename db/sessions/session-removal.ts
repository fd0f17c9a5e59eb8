/** Deletes sessions, alone or together with their agent, channel or installation, and sends `sessionDeleted` to plugins. */

import { readRoom } from '../accounts/usage.ts';
import { identifyEvent, insertEvents } from '../installations/events.ts';
import { findSubscribers, type Subscriber } from '../installations/subscribers.ts';
import type { Queues } from '../jobs/queues.ts';
import { notifySessionsDeleted } from '../postgres/notifications.ts';
import {
  inLockedTransaction,
  inTransaction,
  readingPool,
  type Transaction,
  type WritingPool,
} from '../postgres/pool.ts';
import { changeRows, findValue, hasRow, listValues, type Queryable, SWEEP_BATCH } from '../postgres/rows.ts';
import { KeyedLocks } from '../timing/keyed-locks.ts';
import { recordChanges } from './session-changes.ts';
import { CLEARED_TURN_SQL } from './sessions.ts';

/**
 * Sessions that one transaction deletes, and at most as many events that it records for them: while it is open, the session
 * streams of all accounts wait.
 */
const BATCH = 1_000;

interface DeletedSession {
  readonly sessionId: string;
  readonly agentId: string;
}

/** What is deleted together with its sessions: an agent, a channel or an installation. */
export interface SessionOwner {
  readonly accountId: string;
  /** Locks its row until the transaction ends, so that no session of it starts. False: it does not exist. */
  lock(tx: Transaction): Promise<boolean>;
  /** Lists at most so many of its sessions. */
  listSessions(db: Queryable, limit: number): Promise<string[]>;
  /** Deletes its row, when it has no sessions. */
  delete(tx: Transaction): Promise<unknown>;
}

/** Held by each transaction of a removal. Take it before any row lock: two removals of overlapping sessions would deadlock without it. */
const nameSessionsLock = (accountId: string): string => `sessions:${accountId}`;

/**
 * Deletes the sessions of an owner in batches, each in a transaction of its own, and the owner with the last batch. If it is
 * interrupted, the owner and the remaining sessions still exist, and the next removal continues.
 *
 * @param signal ends it between two batches
 * @returns whether the owner existed
 */
export async function deleteWithSessions(
  pool: WritingPool,
  queues: Queues,
  owner: SessionOwner,
  signal?: AbortSignal,
): Promise<boolean> {
  const { accountId } = owner;
  for (;;) {
    const receivers = await findReceivers(readingPool(pool), accountId);
    const limit = Math.max(1, Math.floor(BATCH / Math.max(1, receivers.length)));
    await emptySessions(pool, { accountId, sessionIds: await owner.listSessions(readingPool(pool), limit) }, signal);
    const deleteBatch = async (tx: Transaction): Promise<'absent' | 'deleted' | 'more'> => {
      if (!(await owner.lock(tx))) return 'absent';
      const sessionIds = await owner.listSessions(tx, limit);
      await deleteSessions(tx, queues, { accountId, sessionIds, receivers });
      if (sessionIds.length === limit) return 'more';
      await owner.delete(tx);
      return 'deleted';
    };
    const result = await inLockedTransaction(pool, nameSessionsLock(accountId), deleteBatch, signal);
    if (result !== 'more') return result === 'deleted';
  }
}

/** Deletes one session with its transcript. False: it does not exist. */
export async function deleteSession(
  tx: Transaction,
  queues: Queues,
  { accountId, id }: { readonly accountId: string; readonly id: string },
): Promise<boolean> {
  const receivers = await findReceivers(tx, accountId);
  return (await deleteSessions(tx, queues, { accountId, sessionIds: [id], receivers })) === 1;
}

/** Finds the plugins that get the events. None while the quota is full: a deletion makes room, so it must not fail for it. */
async function findReceivers(db: Queryable, accountId: string): Promise<Subscriber[]> {
  const subscribers = await findSubscribers(db, accountId, 'sessionDeleted');
  return subscribers.length > 0 && (await readRoom(db, accountId, 'deliveries')) >= 1 ? subscribers : [];
}

interface SessionBatch {
  readonly accountId: string;
  readonly sessionIds: readonly string[];
  readonly receivers: readonly Subscriber[];
}

/**
 * Deletes sessions with their transcripts. Notifies supervisors and plugins with the commit. Skips sessions that are deleted
 * already.
 *
 * @returns how many
 */
async function deleteSessions(
  tx: Transaction,
  queues: Queues,
  { accountId, sessionIds, receivers }: SessionBatch,
): Promise<number> {
  // With the lock, only the first of two concurrent deletions records the change.
  const sql = 'SELECT id FROM sessions WHERE account_id = $1 AND id = ANY ($2) ORDER BY id FOR UPDATE';
  const locked = await listValues<string>(tx, sql, [accountId, sessionIds]);
  if (locked.length === 0) return 0;
  await recordChanges(tx, locked, 'deleted');
  const deleted = await tx.query<DeletedSession>(
    'DELETE FROM sessions WHERE id = ANY ($1) RETURNING id AS "sessionId", agent_id AS "agentId"',
    [locked],
  );
  await notifySessionsDeleted(tx, locked);
  await recordSessionsDeleted(tx, queues, { accountId, receivers, deleted: deleted.rows });
  return locked.length;
}

/** One batch at a time of an account: each keeps a connection busy. */
const emptying = new KeyedLocks();
/** Tables that may have many rows of a session, each before the one that it refers to. */
const LARGE_TABLES = ['session_messages', 'turn_pieces', 'turn_outputs', 'turns', 'tool_calls'] as const;

interface Sessions {
  readonly accountId: string;
  readonly sessionIds: readonly string[];
}

/**
 * Deletes what sessions that are about to be deleted contain, if it is much: in batches, because one statement would run into
 * the time limit and keep others waiting. If it is interrupted, the sessions still exist, and the next removal continues.
 *
 * @param signal ends it between two batches
 */
export async function emptySessions(pool: WritingPool, sessions: Sessions, signal?: AbortSignal): Promise<void> {
  for (const table of LARGE_TABLES) await deleteMany(pool, table, sessions, signal);
}

/**
 * The same for a session that is about to be cleared. Clears the turns that have ended, whose rows stay. Leaves what belongs to
 * other turns to `clearSession`: if the clear is interrupted, their runtimes go on, and must not make a call of a tool again.
 *
 * @returns how many messages were deleted
 */
export async function emptyForClear(
  pool: WritingPool,
  { accountId, id }: { readonly accountId: string; readonly id: string },
): Promise<number> {
  const sessions = { accountId, sessionIds: [id] };
  const removed = await deleteMany(pool, 'session_messages', sessions);
  await clearManyTurns(pool, accountId, id);
  for (const table of ['turn_pieces', 'turn_outputs', 'tool_calls'] as const)
    await deleteMany(pool, table, sessions, undefined, IS_OF_NO_OPEN_TURN);
  return removed;
}

/** Condition on a row `r` of a turn. */
const IS_OF_NO_OPEN_TURN = `NOT EXISTS (SELECT 1 FROM turns t
  WHERE t.session_id = r.session_id AND t.id = r.turn_id AND t.state IN ('judging', 'open'))`;

async function deleteMany(
  pool: WritingPool,
  table: (typeof LARGE_TABLES)[number],
  { accountId, sessionIds }: Sessions,
  signal?: AbortSignal,
  condition = 'true',
): Promise<number> {
  const rows = `FROM ${table} r WHERE r.session_id = ANY ($1) AND ${condition}`;
  if (!(await hasRow(readingPool(pool), `SELECT 1 ${rows} OFFSET ${SWEEP_BATCH} LIMIT 1`, [sessionIds]))) return 0;
  const sql = `WITH batch AS MATERIALIZED (SELECT r.ctid AS place ${rows} LIMIT ${SWEEP_BATCH} FOR UPDATE OF r SKIP LOCKED)
    DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT place FROM batch))`;
  const deleteBatch = () => inTransaction(pool, (tx) => changeRows(tx, sql, [sessionIds]));
  let removed = 0;
  for (let batch = SWEEP_BATCH; batch === SWEEP_BATCH; removed += batch)
    batch = await emptying.run(accountId, deleteBatch, signal);
  return removed;
}

/** Each batch begins after the last turn of the one before: it need not read the turns that were cleared already. */
const CLEAR_TURNS = `WITH batch AS MATERIALIZED (
    SELECT id FROM turns WHERE session_id = $1 AND id > $2 AND state IN ('ended', 'vetoed')
     ORDER BY id LIMIT ${SWEEP_BATCH} FOR NO KEY UPDATE SKIP LOCKED),
  cleared AS (UPDATE turns SET ${CLEARED_TURN_SQL} WHERE session_id = $1 AND id = ANY (ARRAY(SELECT id FROM batch)))
  SELECT max(id) FROM batch HAVING count(*) = ${SWEEP_BATCH}`;

/** Clears the turns of a session that have ended, if there are many. */
async function clearManyTurns(pool: WritingPool, accountId: string, sessionId: string): Promise<void> {
  const isMuch = `SELECT 1 FROM turns WHERE session_id = $1 AND state IN ('ended', 'vetoed') OFFSET ${SWEEP_BATCH} LIMIT 1`;
  if (!(await hasRow(readingPool(pool), isMuch, [sessionId]))) return;
  const clearBatch = (after: string) =>
    inTransaction(pool, (tx) => findValue<string>(tx, CLEAR_TURNS, [sessionId, after]));
  for (let last: string | null = ''; last !== null; ) {
    const after: string = last;
    last = await emptying.run(accountId, () => clearBatch(after));
  }
}

interface Deletion {
  readonly accountId: string;
  readonly receivers: readonly Subscriber[];
  readonly deleted: readonly DeletedSession[];
}

async function recordSessionsDeleted(
  tx: Transaction,
  queues: Queues,
  { accountId, receivers, deleted }: Deletion,
): Promise<void> {
  if (receivers.length === 0) return;
  const type = 'sessionDeleted';
  const recorded = receivers.flatMap((receiver) =>
    deleted.map((data) => identifyEvent({ ...receiver, accountId, type, data })),
  );
  await insertEvents(tx, recorded);
  // One job delivers all events of an installation.
  const firsts = new Map(recorded.toReversed().map(({ id, installationId }) => [installationId, id]));
  const jobs = [...firsts].map(([installationId, eventId]) => ({
    payload: { eventId, installationId },
    group: { id: installationId, accountId },
  }));
  await queues.sendToGroups(tx, 'events', jobs, 'all-queued');
}
