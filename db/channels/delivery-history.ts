/** Lists and replays deliveries for their user. `delivery-queue.ts` processes them. */

import type { ClientBase, Pool } from 'pg';
import type { Page } from '../postgres/cursors.ts';
import { notifyDeliveriesSql } from '../postgres/notifications.ts';
import { findRow, type PageQuery, readPage } from '../postgres/rows.ts';
import type { RawHeader } from './deliveries.ts';

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
  readonly method: string;
  readonly query: string;
  readonly headers: readonly RawHeader[];
  readonly bodyBytes: number;
}

const COLUMNS = `id, channel_id AS "channelId", direction, state, attempts, received_at AS "receivedAt",
  CASE WHEN state = 'pending' AND next_attempt_at < 'infinity' THEN next_attempt_at END AS "nextAttemptAt",
  last_error AS "lastError", finished_at AS "finishedAt", method, query, headers, octet_length(body) AS "bodyBytes"`;

interface DeliveryQuery extends PageQuery {
  readonly installationId: string;
  readonly channelId?: string | undefined;
  readonly state?: DeliveryState | undefined;
}

/** An installation's deliveries, newest first. */
export const pageDeliveries = (pool: Pool, query: DeliveryQuery): Promise<Page<Delivery>> =>
  readPage(
    pool,
    `SELECT ${COLUMNS} FROM deliveries
      WHERE installation_id = $1 AND ($2::text IS NULL OR channel_id = $2) AND ($3::text IS NULL OR state = $3)
        AND ($4::text IS NULL OR id < $4)
      ORDER BY id DESC LIMIT $5`,
    [query.installationId, query.channelId ?? null, query.state ?? null],
    query,
    (row) => row.id,
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
    `SELECT ${COLUMNS}, substring(body FROM 1 FOR $3) AS body FROM deliveries WHERE id = $1 AND installation_id = $2`,
    [id, installationId, bodyBytesMax],
  );

/**
 * Makes finished deliveries pending again, at their old positions and with all attempts left. Skips deliveries whose
 * channel was disconnected.
 *
 * @param filter one delivery by its id, or all of a state
 * @returns how many
 */
export async function replayDeliveries(
  tx: ClientBase,
  filter: { installationId: string; id?: string; state?: 'delivered' | 'dead'; channelId?: string; limit: number },
): Promise<number> {
  const replayed = await tx.query(
    `WITH replayed AS (
       UPDATE deliveries d SET state = 'pending', attempts = 0, interruptions = 0, next_attempt_at = now(), claimed_by = NULL,
              finished_at = NULL
        WHERE d.id IN (SELECT r.id FROM deliveries r
                        WHERE r.installation_id = $1 AND ($2::text IS NULL OR r.id = $2) AND r.state <> 'pending'
                          AND ($3::text IS NULL OR r.state = $3) AND ($4::text IS NULL OR r.channel_id = $4)
                          AND EXISTS (SELECT 1 FROM channels c WHERE c.id = r.channel_id)
                        ORDER BY r.position LIMIT $5 FOR UPDATE)
        RETURNING d.channel_id
     ) ${notifyDeliveriesSql('SELECT channel_id FROM replayed')}`,
    [filter.installationId, filter.id ?? null, filter.state ?? null, filter.channelId ?? null, filter.limit],
  );
  return replayed.rows.length;
}
