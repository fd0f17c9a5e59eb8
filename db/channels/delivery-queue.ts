/**
 * Claims and finishes deliveries. Only the head of a channel queue is attempted: the oldest pending delivery. The next one
 * follows when the head is delivered, dead or set aside. Deliveries that were set aside are in a queue of their own, which delays
 * only deliveries of the same conversation.
 */

import type { Pool } from 'pg';
import { isInShardsSql } from '../cluster/shards.ts';
import { MAY_RUN_SQL } from '../installations/run-rule.ts';
import { dueAtSql } from '../jobs/due-time.ts';
import { type AttemptResult, countAttemptSql, countInterruptionSql } from '../jobs/interruptions.ts';
import { withPendingSql } from '../jobs/pending.ts';
import { MARK_RELEASED, queuedAtSql } from '../jobs/queued-time.ts';
import { deleteOldRows } from '../postgres/old-rows.ts';
import type { Fence } from '../postgres/pool.ts';
import {
  changeRows,
  findRow,
  listRows,
  listValues,
  planOnce,
  type Queryable,
  SWEEP_BATCH,
  sweepRows,
} from '../postgres/rows.ts';
import { isUnsettledSql } from './spools.ts';

export interface ChannelQueue {
  readonly channelId: string;
  /** `in`: a webhook request for `channel.receive`; `out`: an agent's reply for `channel.send`. */
  readonly direction: 'in' | 'out';
  /** Whether it is the queue of the deliveries that were set aside. */
  readonly setAside: boolean;
}
export interface OwnedChannelQueue extends ChannelQueue {
  readonly installationId: string;
  readonly accountId: string;
}
export const formatQueueKey = ({ channelId, direction, setAside }: ChannelQueue): string =>
  `${direction} ${setAside} ${channelId}`;
export interface WaitingChannelQueue extends OwnedChannelQueue {
  /** Time until its head may be attempted; 0: now. Milliseconds. */
  readonly waitMs: number;
}
/** One attempt at one delivery. `attempt` counts from 1. */
export interface ClaimedDelivery extends OwnedChannelQueue {
  readonly id: string;
  readonly routingId: string;
  readonly receivedAt: string;
  /** See `queuedAtSql`. */
  readonly queuedAt: string;
  readonly method: string;
  readonly query: string;
  /** As received, in order. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Uint8Array;
  readonly attempt: number;
  /** Attempts that were interrupted and do not count as failures. */
  readonly interruptions: number;
  readonly isReplayed: boolean;
  /** Trace of the request that created the delivery; null: it is not traced. */
  readonly traceparent: string | null;
  /** Whether others waited behind it in its queue at the claim. A later delivery is announced by a notification. */
  readonly hasNext: boolean;
}

/** Condition: `alias` is in a queue of a channel, either the ordered one or that of the deliveries set aside. */
export const isQueuedSql = (alias: string, channel: string, direction: string, setAside: boolean): string =>
  `${alias}.channel_id = ${channel} AND ${alias}.direction = ${direction} AND ${alias}.state = 'pending'
   AND ${setAside ? '' : 'NOT '}${alias}.set_aside`;

/**
 * Selects the first delivery set aside of the conversation of `alias`, or else of a later conversation. The text leaves PostgreSQL one
 * index. For EXISTS or a search by equality, it might read all deliveries that were set aside. With the bare condition `set_aside`, it
 * would read and sort them where there are many channels, because it expects few in each.
 */
export const selectAsideFrom = (alias: string, columns: string): string =>
  `SELECT ${columns} FROM deliveries a
    WHERE a.channel_id = ${alias}.channel_id AND a.direction = ${alias}.direction AND a.state = 'pending'
      AND a.set_aside = (${alias}.conversation_key IS NOT NULL) AND a.conversation_key >= ${alias}.conversation_key
    ORDER BY a.conversation_key, a.position LIMIT 1`;
/**
 * Condition: `alias` is behind a delivery of its conversation that was set aside, and waits for it. Never true without a
 * conversation.
 */
export const isBehindSql = (alias: string): string =>
  `coalesce((${selectAsideFrom(alias, 'a.conversation_key')}) = ${alias}.conversation_key, false)`;

/**
 * Deliveries that a claim looks through for one that is not behind another. Where all of them are, it looks at the first delivery of
 * each conversation.
 */
const HEAD_WINDOW = 100;
/** Conversations that one claim looks through. Where all are behind such a delivery, the next claim continues after them. */
export const HEAD_CONVERSATIONS = 1_000;

/** The delivery of those set aside that is due first. */
const selectDueAside = (channel: string, direction: string): string =>
  `SELECT h.* FROM deliveries h WHERE ${isQueuedSql('h', channel, direction, true)}
    ORDER BY h.next_attempt_at, h.position LIMIT 1`;
/** The first delivery of the ordered queue, which may be behind another. */
const selectFirst = (channel: string, direction: string): string =>
  `SELECT h.* FROM deliveries h WHERE ${isQueuedSql('h', channel, direction, false)} ORDER BY h.position LIMIT 1`;

const FIRST_COLUMNS = 'id, channel_id, direction, conversation_key, position, next_attempt_at, last_error';
const IS_CLAIMABLE = isQueuedSql('q', '$1', '$2', false);
/** The last conversation that was looked at. Null: no other follows. */
const LAST_KEY = `(SELECT l.conversation_key FROM firsts l WHERE l.number = ${HEAD_CONVERSATIONS})`;
/**
 * Common tables. `head`: the first delivery of the ordered queue that is not behind another. PostgreSQL reads `firsts`, the
 * first one of each conversation after $4, only where `head` needs it, with one index probe for each conversation.
 */
const ORDERED_HEAD = `
  firsts (${FIRST_COLUMNS}, number) AS (
    (SELECT ${FIRST_COLUMNS}, 1 FROM deliveries q
      -- A kept plan would not use the index if NULL were a case of its own. No key is empty.
      WHERE ${IS_CLAIMABLE} AND q.conversation_key > coalesce($4::text, '')
      ORDER BY q.conversation_key, q.position LIMIT 1)
    UNION ALL
    SELECT next.*, f.number + 1 FROM firsts f CROSS JOIN LATERAL (
      SELECT ${FIRST_COLUMNS} FROM deliveries q WHERE ${IS_CLAIMABLE} AND q.conversation_key > f.conversation_key
       ORDER BY q.conversation_key, q.position LIMIT 1) next
     WHERE f.number < ${HEAD_CONVERSATIONS}),
  head (id, due_at, next_key) AS MATERIALIZED (
    (SELECT h.id, ${dueAtSql('h', '$5')}, $4::text
       FROM (SELECT q.* FROM deliveries q WHERE ${IS_CLAIMABLE} ORDER BY q.position LIMIT ${HEAD_WINDOW}) h
      WHERE NOT ${isBehindSql('h')} ORDER BY h.position LIMIT 1)
    UNION ALL
    (SELECT f.id, ${dueAtSql('f', '$5')}, ${LAST_KEY} FROM firsts f
      WHERE NOT ${isBehindSql('f')} ORDER BY f.position LIMIT 1)
    LIMIT 1)`;
/** `head`: the delivery of those set aside that is due first. */
const ASIDE_HEAD = `
  head (id, due_at, next_key) AS MATERIALIZED (
    SELECT h.id, ${dueAtSql('h', '$5')}, $4::text FROM (${selectDueAside('$1', '$2')}) h)`;

const RELEASED_AT = 'SELECT i.released_at FROM installations i WHERE i.id = d.installation_id';

/** One statement, so that a head cannot become due between the claim and the read of its wait. */
const claimSql = (head: string, lastKey: string): string =>
  `WITH RECURSIVE ${head},
   claimed AS (
     UPDATE deliveries d SET attempts = d.attempts + 1, ${countInterruptionSql}, claimed_by = $3
      WHERE d.id = (SELECT head.id FROM head)
        AND d.state = 'pending' AND ${dueAtSql('d', '$5')} <= now() AND NOT ${isUnsettledSql('d')} AND hold_shard($6, $3)
        -- A sweep ends the deliveries of a disconnected channel, a while after.
        AND EXISTS (SELECT 1 FROM channels c WHERE c.id = d.channel_id)
      RETURNING d.id, d.channel_id AS "channelId", d.direction, d.set_aside AS "setAside",
        d.installation_id AS "installationId", d.account_id AS "accountId", d.routing_id AS "routingId",
        d.received_at AS "receivedAt", ${queuedAtSql('d', `(${RELEASED_AT})`)} AS "queuedAt", d.method, d.query, d.headers, d.body, d.attempts AS attempt, d.interruptions,
        d.replayed_at IS NOT NULL AS "isReplayed",
        d.traceparent,
        -- For EXISTS, PostgreSQL might read all deliveries.
        d.set_aside OR (
          SELECT true FROM deliveries n
           WHERE ${isQueuedSql('n', 'd.channel_id', 'd.direction', false)}
             AND n.position > d.position ORDER BY n.position LIMIT 1) IS NOT NULL AS "hasNext")
   SELECT claimed.*, head.id IS NOT NULL AS "hasHead",
          CASE WHEN head.due_at > now() AND head.due_at < 'infinity'
               THEN ceil(extract(epoch FROM head.due_at - now()) * 1000)::float8 END AS "waitMs",
          CASE WHEN head.id IS NOT NULL THEN head.next_key ELSE ${lastKey} END AS "nextKey"
     FROM (VALUES (1)) AS one LEFT JOIN head ON true LEFT JOIN claimed ON true`;
const CLAIM_ORDERED = planOnce(claimSql(ORDERED_HEAD, LAST_KEY));
const CLAIM_ASIDE = planOnce(claimSql(ASIDE_HEAD, 'NULL'));

/** For a caller that does not know the longest wait: longer than any. Seconds. */
const UNKNOWN_WAIT = 1e9;

const CHANNELS_WITH_PENDING = withPendingSql('deliveries', 'channel_id');

/**
 * Finds the channel queues whose head waits for an attempt, now or later, except those that are held. Claimed heads are
 * among them: the caller knows which queues it is working on, and no other supervisor works on those of its shards. A queue
 * whose first delivery is behind another of its conversation is found at once: this statement reads one delivery of each
 * queue for all accounts, and the claim searches further for its own and returns the wait of the head.
 *
 * @param shards those of the caller; null: all
 * @param channelIds null: all channels
 * @param longestWait of a postponement, in seconds; see `dueAtSql`
 */
export const findWaitingChannelQueues = (
  pool: Queryable,
  shards: readonly number[] | null,
  channelIds: readonly string[] | null,
  longestWait = UNKNOWN_WAIT,
): Promise<WaitingChannelQueue[]> =>
  listRows(
    pool,
    `${channelIds === null ? CHANNELS_WITH_PENDING : 'WITH wanted (id) AS (SELECT unnest($3::text[]))'}
     SELECT d.channel_id AS "channelId", d.direction, d.set_aside AS "setAside",
            d.installation_id AS "installationId", d.account_id AS "accountId",
            CASE WHEN NOT d.set_aside AND ${isBehindSql('d')} THEN 0
                 ELSE greatest(0, ceil(extract(epoch FROM ${dueAtSql('d', '$2')} - now()) * 1000))::float8 END AS "waitMs"
       FROM wanted w
            -- LIMIT makes this one probe for each: a join would read all channels.
            CROSS JOIN LATERAL (SELECT k.id, k.account_id FROM channels k WHERE k.id = w.id LIMIT 1) c
            CROSS JOIN (VALUES ('in'), ('out')) AS l(direction)
            CROSS JOIN LATERAL ((${selectFirst('c.id', 'l.direction')}) UNION ALL (${selectDueAside('c.id', 'l.direction')})) d
      WHERE ${isInShardsSql('c.account_id', '$1')} AND d.next_attempt_at < 'infinity'
      ORDER BY d.position`,
    channelIds === null ? [shards, longestWait] : [shards, longestWait, channelIds],
  );

interface ClaimOptions {
  /**
   * The conversation after which the search begins where the deliveries that came first are behind others. Default: null, it begins with
   * the first conversation.
   */
  readonly afterKey?: string | null;
  /** Of a postponement, in seconds; see `dueAtSql`. */
  readonly longestWait?: number | undefined;
}

/** The result of a search for the head of a channel queue. */
interface Claim {
  /** Null: the queue has no head, it is not due, or it waits for requests that came before it. */
  readonly delivery: ClaimedDelivery | null;
  /** Whether the search found a head, claimed or not. */
  readonly hasHead: boolean;
  /** Time until the head is due; null: it is due, or it waits until the installation can run. Milliseconds. */
  readonly waitMs: number | null;
  /** The conversation behind which the next search begins; null: it begins with the first one. */
  readonly nextKey: string | null;
}

/**
 * Claims one attempt at the head of a channel queue, also one that an earlier owner of the shard has claimed.
 *
 * @param fence of the caller, which must not be working on the queue already
 */
export async function claimNextDelivery(
  pool: Pool,
  queue: ChannelQueue,
  fence: Fence,
  { afterKey = null, longestWait = UNKNOWN_WAIT }: ClaimOptions = {},
): Promise<Claim> {
  const found = await findRow<Omit<Claim, 'delivery'> & (ClaimedDelivery | { readonly id: null })>(
    pool,
    queue.setAside ? CLAIM_ASIDE : CLAIM_ORDERED,
    [queue.channelId, queue.direction, fence.epoch, afterKey, longestWait, fence.shard],
  );
  if (!found) throw new Error('the claim of a delivery returned no row');
  const { hasHead, waitMs, nextKey, ...claimed } = found;
  if (claimed.id === null) return { delivery: null, hasHead, waitMs, nextKey };
  // A search of other conversations may find one that came before this delivery.
  const hasNext = claimed.hasNext || afterKey !== null || nextKey !== null;
  return { delivery: { ...claimed, hasNext }, hasHead, waitMs, nextKey };
}

const FINISH_DELIVERY =
  planOnce(`UPDATE deliveries SET state = $3, last_error = $4, claimed_by = NULL, finished_at = now()
  WHERE id = $1 AND claimed_by = $2 AND state = 'pending'`);

/**
 * @param epoch of the claim, which fences the write
 * @returns false: another supervisor has claimed the delivery since, and its result counts
 */
export async function finishDelivery(
  tx: Queryable,
  id: string,
  epoch: number,
  state: 'delivered' | 'dead',
  error: string | null = null,
): Promise<boolean> {
  const done = await changeRows(tx, FINISH_DELIVERY, [id, epoch, state, error]);
  return done === 1;
}

interface Postponement {
  /** Seconds; null: until the installation can run again. */
  readonly afterSeconds: number | null;
  readonly error: string;
  readonly as: AttemptResult;
  /** Sets the delivery aside. Pass true only for one that is not yet: with a replayed one, it also sets others aside. */
  readonly setAside?: boolean | undefined;
  /** The required installation that stopped the attempt. Default: null, none did. */
  readonly guardId?: string | null | undefined;
}

/**
 * Puts a delivery back for a later attempt. Its channel queue waits with it unless it is set aside. Setting a replayed delivery aside
 * also sets aside the other replayed ones of its queue: they probably fail for the same reason, and each attempt would delay new
 * deliveries. Of each conversation it sets only the first delivery aside: the later ones wait for that one, which keeps their order.
 */
export async function postponeDelivery(
  pool: Pool,
  id: string,
  epoch: number,
  { afterSeconds, error, as, setAside = false, guardId = null }: Postponement,
): Promise<void> {
  await pool.query(
    `WITH postponed AS (
       UPDATE deliveries SET claimed_by = NULL, last_error = $4, ${countAttemptSql('$5')}, set_aside = set_aside OR $6,
              guard_id = $7,
              next_attempt_at = CASE WHEN $3::float8 IS NULL THEN 'infinity' ELSE now() + make_interval(secs => $3) END
        WHERE id = $1 AND claimed_by = $2 AND state = 'pending'
        RETURNING channel_id, direction, replayed_at)
     UPDATE deliveries d SET set_aside = true
       -- An array, so that all are found first: the probes would pass the index entries of those that are set aside already.
      WHERE $6 AND d.id = ANY (ARRAY(
        SELECT r.id FROM postponed p JOIN deliveries r
            ON ${isQueuedSql('r', 'p.channel_id', 'p.direction', false)} AND r.replayed_at IS NOT NULL AND r.id <> $1
         WHERE p.replayed_at IS NOT NULL
           AND (r.conversation_key IS NULL OR NOT ${isBehindSql('r')} AND r.id = (
             SELECT f.id FROM deliveries f
              WHERE ${isQueuedSql('f', 'r.channel_id', 'r.direction', false)} AND f.conversation_key >= r.conversation_key
              ORDER BY f.conversation_key, f.position LIMIT 1))))`,
    [id, epoch, afterSeconds, error, as, setAside, guardId],
  );
}

const IS_HELD = `state = 'pending' AND next_attempt_at = 'infinity'`;

/**
 * Makes held deliveries due whose installation can run again.
 *
 * @param installationId null: all installations
 * @param id one delivery; default: all
 */
export const releaseHeldDeliveries = (
  pool: Pool,
  installationId: string | null,
  id: string | null = null,
): Promise<string[]> =>
  listValues(
    pool,
    `${installationId === null ? withPendingSql('deliveries', 'installation_id', IS_HELD) : 'WITH wanted (id) AS (SELECT $2::text)'},
     -- Materialized: a version's registrations may be large, and PostgreSQL would unpack them for each delivery.
     ready AS MATERIALIZED (
       SELECT i.id, (v.registrations -> 'channel' ->> 'receive')::boolean AS receives,
              (v.registrations -> 'channel' ->> 'send')::boolean AS sends
         FROM wanted w JOIN installations i ON i.id = w.id JOIN plugins p ON p.id = i.plugin_id
              JOIN versions v ON v.id = i.current_version_id
        WHERE ${MAY_RUN_SQL}),
     released AS (
       UPDATE deliveries d SET next_attempt_at = now() FROM ready r
        WHERE r.id = d.installation_id AND CASE d.direction WHEN 'in' THEN r.receives ELSE r.sends END
          AND d.state = 'pending' AND d.next_attempt_at = 'infinity' AND ($1::text IS NULL OR d.id = $1)
        RETURNING d.channel_id, d.installation_id),
     ${MARK_RELEASED}
     SELECT channel_id FROM released`,
    installationId === null ? [id] : [id, installationId],
  );

/** SQL that makes the first delivery of each ordered queue due that waits after an attempt. Returns the ids of the channels. */
const makeHeadsDueSql = (condition: string): string => `
  WITH heads AS MATERIALIZED (
    SELECT h.id FROM installations i JOIN channels c ON c.installation_id = i.id
           CROSS JOIN (VALUES ('in'), ('out')) AS l(direction)
           CROSS JOIN LATERAL (${selectFirst('c.id', 'l.direction')}) h
     WHERE ${condition} AND h.last_error IS NOT NULL AND h.claimed_by IS NULL
       AND h.next_attempt_at > now() AND h.next_attempt_at < 'infinity'),
  -- A locked row is being made due, replayed or ended. Two of these statements may find the same rows in different orders, so
  -- that waiting could be a deadlock.
  unlocked AS MATERIALIZED (
    SELECT d.id FROM heads JOIN deliveries d ON d.id = heads.id FOR NO KEY UPDATE OF d SKIP LOCKED)
  UPDATE deliveries d SET next_attempt_at = now() FROM unlocked
   WHERE d.id = unlocked.id AND d.state = 'pending' AND d.claimed_by IS NULL
   RETURNING d.channel_id`;

/**
 * Makes the first delivery of each ordered queue of an installation due that waits after a failure. Its plugin may be repaired, and all
 * deliveries behind it would wait, too. Not while the installation is failed: the plugin cannot be called.
 */
export const makeFailedHeadsDue = (pool: Pool, installationId: string): Promise<string[]> =>
  listValues(pool, makeHeadsDueSql(`i.id = $1 AND i.status = 'ready'`), [installationId]);

/** Statuses in which a required installation stops what it should judge. */
const STOPS_SQL = `status IN ('failed', 'needs_configuration')`;

/**
 * Makes the first delivery of each ordered queue of an account due that waits because a required installation stopped its last attempt.
 * Call it after a change of that installation, which may be gone, paused or not required any more. Not while it cannot be called.
 */
export const makeGuardedHeadsDue = (
  pool: Pool,
  { accountId, installationId }: { readonly accountId: string; readonly installationId: string },
): Promise<string[]> =>
  listValues(
    pool,
    makeHeadsDueSql(`i.account_id = $1 AND h.guard_id = $2
       AND NOT EXISTS (SELECT 1 FROM installations g WHERE g.id = $2 AND g.required AND g.${STOPS_SQL})`),
    [accountId, installationId],
  );

/**
 * Marks pending deliveries of disconnected channels as dead: one sweep.
 *
 * @param channelId null: all channels
 */
export const endOrphanedDeliveries = (pool: Pool, channelId: string | null): Promise<void> =>
  sweepRows(
    pool,
    `${channelId === null ? CHANNELS_WITH_PENDING : 'WITH wanted (id) AS (SELECT $1::text)'},
     -- Materialized: nearly always empty, and then no deliveries are read.
     orphaned AS MATERIALIZED (
       SELECT w.id FROM wanted w WHERE w.id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM channels c WHERE c.id = w.id)),
     batch AS MATERIALIZED (
       SELECT p.id FROM orphaned o JOIN deliveries p ON p.channel_id = o.id AND p.state = 'pending'
        LIMIT ${SWEEP_BATCH} FOR UPDATE OF p SKIP LOCKED)
     UPDATE deliveries d SET state = 'dead', last_error = 'the channel is disconnected', claimed_by = NULL,
            finished_at = now()
       FROM batch b WHERE b.id = d.id`,
    channelId === null ? [] : [channelId],
  );

export function sweepDeliveries(pool: Pool, retentionDays: number): Promise<void> {
  const isOld = `state <> 'pending' AND finished_at < now() - make_interval(days => $1)`;
  return deleteOldRows(pool, 'deliveries', 'finished_at', isOld, [retentionDays]);
}
