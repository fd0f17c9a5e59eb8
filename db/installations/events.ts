/** The outbox of events to plugins: a row in the transaction of the change, and a queue job that delivers it. */

import type { Pool } from 'pg';
import type { z } from 'zod';
import { type EventName, events } from '../../sdk/contract/protocol.ts';
import { isInShardsSql } from '../cluster/shards.ts';
import { dueAtSql } from '../jobs/due-time.ts';
import { type AttemptResult, countAttemptSql, countInterruptionSql } from '../jobs/interruptions.ts';
import { withPendingSql } from '../jobs/pending.ts';
import { MARK_RELEASED } from '../jobs/queued-time.ts';
import type { Queues } from '../jobs/queues.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import type { Fence } from '../postgres/pool.ts';
import { changeRows, findRow, listRows, planOnce, type Queryable, SWEEP_BATCH, sweepRows } from '../postgres/rows.ts';
import { BLOCKED_REASON_SQL, RECEIVES_EVENTS_SQL } from './run-rule.ts';

/** Limits the memory of one sweep; the next sweep handles the rest. */
const SWEEP_LIMIT = 10_000;

interface NewEvent<Type extends EventName = EventName> {
  readonly installationId: string;
  readonly accountId: string;
  readonly pluginId: string;
  readonly versionId: string | null;
  readonly semVer: string | null;
  readonly type: Type;
  readonly data: z.infer<(typeof events)[Type]['data']>;
}
/** One attempt at one event. `attempt` counts from 1. */
export interface ClaimedEvent extends Omit<NewEvent, 'data'> {
  readonly id: string;
  readonly data: Record<string, unknown>;
  readonly occurredAt: string;
  readonly attempt: number;
  /** Attempts that were interrupted and do not count as failures. */
  readonly interruptions: number;
}

/** Inserts an event and its queue job in the caller's transaction. @returns the event's id, the same in every attempt */
export async function recordEvent<Type extends EventName>(
  tx: Queryable,
  queues: Queues,
  event: NewEvent<Type>,
): Promise<string> {
  const identified = identifyEvent(event);
  await insertEvents(tx, [identified]);
  await queueEvent(tx, queues, identified);
  return identified.id;
}

type IdentifiedEvent<Type extends EventName> = NewEvent<Type> & { readonly id: string };

/** Gives an event its id. Events of an installation are delivered in the order of their ids. */
export const identifyEvent = <Type extends EventName>(event: NewEvent<Type>): IdentifiedEvent<Type> => ({
  ...event,
  id: orderedId(Date.now()),
});

/** Inserts events without their queue jobs, in one statement. */
export async function insertEvents<Type extends EventName>(
  tx: Queryable,
  given: readonly IdentifiedEvent<Type>[],
): Promise<void> {
  await tx.query(
    `INSERT INTO events (id, installation_id, account_id, plugin_id, version_id, semver, type, data)
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::jsonb[])`,
    [
      given.map(({ id }) => id),
      given.map(({ installationId }) => installationId),
      given.map(({ accountId }) => accountId),
      given.map(({ pluginId }) => pluginId),
      given.map(({ versionId }) => versionId),
      given.map(({ semVer }) => semVer),
      given.map(({ type }) => type),
      given.map(({ type, data }) => JSON.stringify(events[type].data.parse(data))),
    ],
  );
}

interface UpdateOrigin {
  readonly versionId: string;
  readonly semVer: string;
}

/**
 * Skips the `pluginUpdated` events of an installation that no supervisor has begun to deliver.
 *
 * @returns the version that the oldest of them came from; null: there were none
 */
export async function mergePendingUpdates(tx: Queryable, installationId: string): Promise<UpdateOrigin | null> {
  const merged = await tx.query<UpdateOrigin & { id: string }>(
    `UPDATE events SET state = 'skipped', last_error = 'a later update replaced it', finished_at = now()
      WHERE installation_id = $1 AND type = 'pluginUpdated' AND state = 'pending' AND claimed_by IS NULL
      RETURNING id, data ->> 'fromVersionId' AS "versionId", data ->> 'fromSemVer' AS "semVer"`,
    [installationId],
  );
  const [oldest] = merged.rows.sort((one, other) => (one.id < other.id ? -1 : 1));
  return oldest ?? null;
}

/** An event that failed this often lets the later ones of its installation pass. */
const FAILURES_IN_ORDER = 2;
/** The longest wait of a postponement, seconds: 10 minutes and the random share of the backoff. */
export const EVENT_WAIT_MAX_S = 720;

const isDueSql = (alias: string): string => `${dueAtSql(alias, `${EVENT_WAIT_MAX_S}`)} <= now()`;

/** The event of an installation that is attempted next. It may have to wait, and the later ones wait with it. */
const selectHead = (isOfInstallation: string) => `SELECT e.* FROM events e
  WHERE ${isOfInstallation} AND e.state = 'pending'
    AND (${isDueSql('e')} OR e.attempts - e.interruptions < ${FAILURES_IN_ORDER})
  ORDER BY e.installation_id, e.id LIMIT 1`;

const CLAIM_EVENT = planOnce(`UPDATE events SET attempts = attempts + 1, ${countInterruptionSql}, claimed_by = $2
  WHERE id = (SELECT head.id FROM (${selectHead('e.installation_id = $1')}) head)
    AND state = 'pending' AND ${isDueSql('events')} AND hold_shard($3, $2)
  RETURNING id, installation_id AS "installationId", account_id AS "accountId", plugin_id AS "pluginId",
    version_id AS "versionId", semver AS "semVer", type, data, occurred_at AS "occurredAt", attempts AS attempt,
    interruptions`);

/**
 * Claims one attempt at the oldest event of an installation, also one that an earlier owner of the shard has claimed. An
 * event that waits for its next attempt holds the later ones back, until it has failed `FAILURES_IN_ORDER` times. Null:
 * nothing is due.
 *
 * @param fence of the caller, which must not be working on an event of the installation already
 */
export const claimNextEvent = (pool: Pool, installationId: string, fence: Fence): Promise<ClaimedEvent | null> =>
  findRow(pool, CLAIM_EVENT, [installationId, fence.epoch, fence.shard]);

const FINISH_EVENT = planOnce(`UPDATE events SET state = $3, last_error = $4, claimed_by = NULL, finished_at = now()
  WHERE id = $1 AND claimed_by = $2 AND state = 'pending'`);

/**
 * Records the result of an attempt, unless another supervisor has claimed the event since.
 *
 * @param epoch of the claim, which fences the write
 * @param state `skipped`: the plugin no longer has a handler; `dead`: its attempts are used up
 */
export async function finishEvent(
  pool: Pool,
  eventId: string,
  epoch: number,
  state: 'delivered' | 'skipped' | 'dead',
  error: string | null = null,
): Promise<void> {
  await changeRows(pool, FINISH_EVENT, [eventId, epoch, state, error]);
}

type QueuedEvent = Pick<ClaimedEvent, 'id' | 'installationId' | 'accountId'>;

const queueEvent = (
  tx: Queryable,
  queues: Queues,
  { id, installationId, accountId }: QueuedEvent,
  options: { readonly delaySeconds?: number } = {},
): Promise<void> =>
  queues.send(tx, 'events', { eventId: id, installationId }, { ...options, group: { id: installationId, accountId } });

export interface EventPostponement {
  /** Epoch of the claim, which fences the write. */
  readonly epoch: number;
  /** Null: until its installation can run, because it is paused or needs configuration. */
  readonly afterSeconds: number | null;
  readonly error: string;
  readonly as: AttemptResult;
}

/** Schedules another attempt. Idempotent; the sweep repairs a crash between the two statements. */
export async function postponeEvent(
  pool: Pool,
  queues: Queues,
  event: QueuedEvent,
  { epoch, afterSeconds, error, as }: EventPostponement,
): Promise<void> {
  await pool.query(
    `UPDATE events SET claimed_by = NULL, last_error = $2, ${countAttemptSql('$4')},
            next_attempt_at = CASE WHEN $3::float8 IS NULL THEN 'infinity' ELSE now() + make_interval(secs => $3) END
      WHERE id = $1 AND claimed_by = $5 AND state = 'pending'`,
    [event.id, error, afterSeconds, as, epoch],
  );
  if (afterSeconds !== null) await queueEvent(pool, queues, event, { delaySeconds: Math.max(1, afterSeconds) });
}

interface OwnEvents {
  /** The caller's shards; null: all. */
  readonly shards: readonly number[] | null;
  /** Installations whose events the caller is delivering. No supervisor delivers the other installations of its shards. */
  readonly delivering: ReadonlySet<string>;
}

/**
 * Queues a job for each installation of the caller's shards whose next event is due, that has no waiting job and that it is
 * not delivering: after a `kill -9` of a supervisor or of PostgreSQL. The job delivers the later events, too.
 *
 * @returns how many
 */
export async function requeueStrandedEvents(pool: Pool, queues: Queues, own: OwnEvents): Promise<number> {
  const stranded = await listRows<QueuedEvent>(
    pool,
    `${withPendingSql('events', 'installation_id')}
     SELECT e.id, e.installation_id AS "installationId", e.account_id AS "accountId"
       -- BETWEEN, because = makes the order by id alone, and its index has the events of all others.
       FROM wanted w CROSS JOIN LATERAL (${selectHead('e.installation_id BETWEEN w.id AND w.id')}) e
      WHERE ${isDueSql('e')} AND NOT e.installation_id = ANY ($2)
        AND ${isInShardsSql('e.account_id', '$1')}
        -- A job that waits for a later attempt at another event would come too late, and so would one from a time when the clock of
        -- the database was ahead. Others wait for at most a minute: pg-boss retries them.
        AND NOT EXISTS (SELECT 1 FROM pgboss.job j
                         WHERE j.name = 'events' AND j.state < 'active' AND j.data ->> 'installationId' = e.installation_id
                           AND (j.start_after <= now()
                             OR (j.data ->> 'eventId' = e.id AND j.start_after <= now() + interval '2 minutes')))
      ORDER BY e.id LIMIT ${SWEEP_LIMIT}`,
    [own.shards, [...own.delivering]],
  );
  for (const event of stranded) await queueEvent(pool, queues, event);
  return stranded.length;
}

/** Queues held events whose installation can run again. @param installationId null: all installations */
export async function releaseHeldEvents(pool: Pool, queues: Queues, installationId: string | null): Promise<number> {
  const released = await listRows<QueuedEvent>(
    pool,
    `WITH released AS (
       UPDATE events e SET next_attempt_at = now() FROM installations i JOIN plugins p ON p.id = i.plugin_id
        WHERE i.id = e.installation_id AND ${BLOCKED_REASON_SQL} IS NULL AND ${RECEIVES_EVENTS_SQL}
          AND e.state = 'pending' AND e.next_attempt_at = 'infinity' AND ($1::text IS NULL OR e.installation_id = $1)
        RETURNING e.id, e.installation_id, e.account_id),
     ${MARK_RELEASED}
     SELECT id, installation_id AS "installationId", account_id AS "accountId" FROM released`,
    [installationId],
  );
  // One job delivers all events of an installation.
  const jobs = new Map(released.map((event) => [event.installationId, event]));
  for (const event of jobs.values()) await queueEvent(pool, queues, event);
  return released.length;
}

/** Marks pending events of removed installations as dead: one sweep. */
export const endOrphanedEvents = (pool: Pool): Promise<void> =>
  sweepRows(
    pool,
    `${withPendingSql('events', 'installation_id')},
     orphaned AS MATERIALIZED (
       SELECT w.id FROM wanted w WHERE w.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM installations i WHERE i.id = w.id)),
     batch AS MATERIALIZED (
       -- BETWEEN: see requeueStrandedEvents.
       SELECT p.id FROM orphaned o JOIN events p ON p.installation_id BETWEEN o.id AND o.id AND p.state = 'pending'
        LIMIT ${SWEEP_BATCH} FOR UPDATE OF p SKIP LOCKED)
     UPDATE events e SET state = 'dead', last_error = 'the installation was removed', claimed_by = NULL, finished_at = now()
       FROM batch b WHERE b.id = e.id`,
  );
