/** Lists deliveries of an installation, and retries, gives up or replays them for its user. `delivery-queue.ts` processes them. */

import type { ClientBase, Pool } from 'pg';
import { isEpochHeldSql } from '../cluster/shards.ts';
import type { Page } from '../postgres/cursors.ts';
import { notifyDeliveriesSql } from '../postgres/notifications.ts';
import { findRow, type PageQuery, type Queryable, readFilteredPage } from '../postgres/rows.ts';
import { isLateSql, type RawHeader } from './deliveries.ts';
import { isBehindSql, isQueuedSql, selectAsideFrom } from './delivery-queue.ts';

type DeliveryState = 'pending' | 'delivered' | 'dead';
export interface Delivery {
  readonly id: string;
  readonly channelId: string;
  readonly direction: 'in' | 'out';
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly receivedAt: string;
  /** Null: it waits until its installation can run, or is finished. */
  readonly nextAttemptAt: string | null;
  readonly lastError: string | null;
  readonly finishedAt: string | null;
  /** Whether later deliveries pass it: it failed twice, or it was replayed and then it or another replayed one of its queue failed. */
  readonly setAside: boolean;
  readonly attempting: boolean;
  /** The delivery that comes first; null: it is first. */
  readonly waitsFor: {
    readonly id: string;
    readonly lastError: string | null;
    readonly attempts: number;
    /** Whether it waits until its installation can run. */
    readonly isHeld: boolean;
  } | null;
  readonly method: string;
  readonly query: string;
  readonly headers: readonly RawHeader[];
  readonly bodyBytes: number;
}

/**
 * Deliveries of a queue that are looked through for its head, which waits for none of its conversation. Where all of them wait, the
 * first one is shown as the head.
 */
const HEAD_WINDOW = 1_000;
const selectFirst = (condition: string): string => `(
  SELECT h.id, h.last_error, h.attempts, h.next_attempt_at FROM (
    SELECT * FROM deliveries q
     WHERE ${isQueuedSql('q', 'd.channel_id', 'd.direction', false)}
     ORDER BY q.position LIMIT ${HEAD_WINDOW}) h
   WHERE ${condition} ORDER BY h.position LIMIT 1)`;
/**
 * Joins the delivery that a pending one waits for: one of its conversation that is set aside, or the head of its queue. The head
 * is joined by queue alone, so that PostgreSQL looks it up once for a page.
 */
const QUEUE = `
  LEFT JOIN LATERAL (${selectAsideFrom('d', 'a.id, a.last_error, a.attempts, a.next_attempt_at, a.conversation_key')}) same
    ON d.state = 'pending' AND NOT d.set_aside AND same.conversation_key = d.conversation_key
  LEFT JOIN LATERAL (${selectFirst(`NOT ${isBehindSql('h')}`)} UNION ALL ${selectFirst('true')} LIMIT 1) head
    ON d.state = 'pending' AND NOT d.set_aside`;
const describeSql = (alias: string): string =>
  `json_build_object('id', ${alias}.id, 'lastError', ${alias}.last_error, 'attempts', ${alias}.attempts,
     'isHeld', ${alias}.next_attempt_at = 'infinity')`;
const WAITS_FOR = `CASE WHEN same.id IS NOT NULL THEN ${describeSql('same')}
    WHEN head.id <> d.id THEN ${describeSql('head')} END`;
const IS_ATTEMPTED = `(d.state = 'pending' AND d.claimed_by IS NOT NULL AND ${isEpochHeldSql('d.claimed_by')})`;

const COLUMNS = `d.id, d.channel_id AS "channelId", d.direction, d.state, d.attempts, d.received_at AS "receivedAt",
  CASE WHEN d.state = 'pending' AND d.next_attempt_at < 'infinity' THEN d.next_attempt_at END AS "nextAttemptAt",
  d.last_error AS "lastError", d.finished_at AS "finishedAt", d.method, d.query, d.headers,
  octet_length(d.body) AS "bodyBytes", d.set_aside AS "setAside",
  ${IS_ATTEMPTED} AS attempting, ${WAITS_FOR} AS "waitsFor"`;

interface DeliveryQuery extends PageQuery {
  readonly installationId: string;
  readonly channelId?: string | undefined;
  readonly state?: DeliveryState | undefined;
}

/** An installation's deliveries, newest first. */
export const pageDeliveries = (pool: Pool, query: DeliveryQuery): Promise<Page<Delivery>> =>
  readFilteredPage<Delivery>(
    pool,
    {
      columns: COLUMNS,
      table: 'd',
      rows: 'SELECT * FROM deliveries WHERE installation_id = $1',
      isWanted: '($2::text IS NULL OR channel_id = $2) AND ($3::text IS NULL OR state = $3)',
      joins: QUEUE,
      // The list does not show the body.
      bytes: 'stored_bytes - octet_length(body)',
    },
    [query.installationId, query.channelId ?? null, query.state ?? null],
    query,
  );

/** Finds one delivery with the first bytes of its body. */
export const findDelivery = (
  pool: Pool,
  installationId: string,
  id: string,
  bodyBytesMax: number,
): Promise<(Delivery & { readonly body: Buffer }) | null> =>
  findRow<Delivery & { body: Buffer }>(
    pool,
    `SELECT ${COLUMNS}, substring(d.body FROM 1 FOR $3) AS body FROM deliveries d ${QUEUE} WHERE d.id = $1 AND d.installation_id = $2`,
    [id, installationId, bodyBytesMax],
  );

/** Part of an UPDATE: the delivery is pending and no supervisor is attempting it. */
const WAITS = `d.id = $1 AND d.installation_id = $2 AND d.state = 'pending' AND NOT ${IS_ATTEMPTED}`;

/** Makes a waiting delivery due. False: it is finished, held or being attempted. */
export const makeDeliveryDue = (tx: Queryable, installationId: string, id: string): Promise<boolean> =>
  changeWaiting(tx, `next_attempt_at = now() WHERE ${WAITS} AND d.next_attempt_at < 'infinity'`, installationId, id);

/** Makes a waiting delivery dead, so that the next one follows. False: it is finished or being attempted. */
export const giveUpDelivery = (tx: Queryable, installationId: string, id: string): Promise<boolean> =>
  changeWaiting(
    tx,
    `state = 'dead', finished_at = now(), claimed_by = NULL,
     last_error = concat_ws(': ', 'given up by its user', d.last_error) WHERE ${WAITS}`,
    installationId,
    id,
  );

async function changeWaiting(tx: Queryable, change: string, installationId: string, id: string): Promise<boolean> {
  const changed = await tx.query(
    `WITH changed AS (UPDATE deliveries d SET ${change} RETURNING d.channel_id, d.account_id)
     ${notifyDeliveriesSql('SELECT channel_id, account_id FROM changed')}`,
    [id, installationId],
  );
  return changed.rows.length > 0;
}

/**
 * Condition of a replay of all: leaves out requests that arrived after their address was retired. They may be forged, so each is
 * replayed by its id only.
 */
export const isReplayedWithAllSql = (alias: string): string =>
  `NOT (${alias}.direction = 'in' AND ${isLateSql(`${alias}.routing_id`, `${alias}.received_at`)})`;

/** The oldest finished deliveries of a state. Each channel is read in order, so that other deliveries cost nothing. */
const OLDEST = `SELECT f.id FROM channels c CROSS JOIN LATERAL (
    SELECT o.id, o.position FROM deliveries o WHERE o.channel_id = c.id AND o.state = $3::text AND o.state <> 'pending'
       AND ${isReplayedWithAllSql('o')}
     ORDER BY o.position LIMIT $5) f
  WHERE c.installation_id = $1 AND ($4::text IS NULL OR c.id = $4) ORDER BY f.position LIMIT $5`;

/**
 * Makes finished deliveries pending again, behind those that are pending and with all attempts left. Skips deliveries
 * whose channel was disconnected.
 *
 * @param filter one delivery by its id, or all of a state, without the requests to an address that was replaced before
 * @returns how many
 */
export async function replayDeliveries(
  tx: ClientBase,
  filter: { installationId: string; id?: string; state?: 'delivered' | 'dead'; channelId?: string; limit: number },
): Promise<number> {
  const replayed = await tx.query(
    `WITH oldest AS (
       SELECT r.id FROM deliveries r
        WHERE r.id = ANY ($2::text[] || ARRAY(${OLDEST})) AND r.installation_id = $1 AND r.state <> 'pending'
          AND EXISTS (SELECT 1 FROM channels c WHERE c.id = r.channel_id)
        ORDER BY r.position FOR UPDATE
     ), behind AS (
       SELECT id, nextval(pg_get_serial_sequence('deliveries', 'position')) AS position FROM oldest
     ), replayed AS (
       UPDATE deliveries d SET state = 'pending', attempts = 0, interruptions = 0, next_attempt_at = now(), claimed_by = NULL,
              finished_at = NULL, replayed_at = now(), set_aside = false, position = b.position
         FROM behind b WHERE d.id = b.id
        RETURNING d.channel_id, d.account_id
     ) ${notifyDeliveriesSql('SELECT channel_id, account_id FROM replayed')}`,
    [
      filter.installationId,
      filter.id === undefined ? [] : [filter.id],
      filter.state ?? null,
      filter.channelId ?? null,
      filter.limit,
    ],
  );
  return replayed.rows.length;
}
