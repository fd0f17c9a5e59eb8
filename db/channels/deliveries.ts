/** Writes deliveries: webhook requests, in groups and before their vendors get an answer, and agents' replies. */

import { notifyNewDeliveriesSql } from '../postgres/notifications.ts';
import type { Queryable } from '../postgres/rows.ts';

/** A header as received, in Latin-1. */
export type RawHeader = readonly [name: string, value: string];
/** A received request. The receiver generates the id, which makes the insert idempotent. */
export interface NewDelivery {
  readonly id: string;
  readonly channelId: string;
  readonly installationId: string;
  readonly accountId: string;
  readonly routingId: string;
  /** Milliseconds since 1970. */
  readonly receivedAt: number;
  readonly method: string;
  /** As received, without the question mark. */
  readonly query: string;
  readonly headers: readonly RawHeader[];
  readonly body: Buffer;
  /** W3C traceparent of the request; absent if it is not traced. */
  readonly traceparent?: string | null;
}

const NEW_QUEUES = `SELECT DISTINCT channel_id, account_id, installation_id, 'in' AS direction FROM given`;

/** Whether a request arrived after its address was replaced or disconnected. */
export const isLateSql = (routingId: string, receivedAt: string): string =>
  `EXISTS (SELECT 1 FROM channel_addresses a WHERE a.routing_id = ${routingId} AND a.retired_at < ${receivedAt})`;
const RETIRED_BEFORE = 'the webhook address was replaced or disconnected before the request arrived';

/**
 * Inserts a group of requests in order, in one statement. Skips existing ids. Requests to addresses that were retired before are dead
 * letters: an API without a database accepts them, because it does not know.
 *
 * @param notifies whether it notifies supervisors. Otherwise the caller notifies the owners
 */
export async function insertDeliveries(tx: Queryable, group: readonly NewDelivery[], notifies = true): Promise<void> {
  const column = <T>(pick: (delivery: NewDelivery) => T): T[] => group.map(pick);
  await tx.query({
    name: notifies ? 'insert-deliveries' : 'insert-deliveries-without-notify',
    text: `WITH given AS (
       SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::text[],
         $8::text[], $9::json[], $10::bytea[], $11::text[]) WITH ORDINALITY
         AS g (id, channel_id, installation_id, account_id, routing_id, received_at, method, query, headers, body, traceparent, at)
     ), written AS (
       INSERT INTO deliveries
         (id, channel_id, installation_id, account_id, routing_id, received_at, method, query, headers, body, traceparent,
          state, last_error, finished_at)
       SELECT id, channel_id, installation_id, account_id, routing_id, to_timestamp(received_at / 1000), method, query,
              headers, body, traceparent, CASE WHEN is_late THEN 'dead' ELSE 'pending' END,
              CASE WHEN is_late THEN '${RETIRED_BEFORE}' END, CASE WHEN is_late THEN now() END
         FROM given g CROSS JOIN LATERAL (
           SELECT ${isLateSql('g.routing_id', 'to_timestamp(g.received_at / 1000)')} AS is_late) late
        ORDER BY at
       ON CONFLICT (id) DO NOTHING
     )
     ${notifies ? notifyNewDeliveriesSql(NEW_QUEUES) : 'SELECT'}`,
    values: [
      column(({ id }) => id),
      column(({ channelId }) => channelId),
      column(({ installationId }) => installationId),
      column(({ accountId }) => accountId),
      column(({ routingId }) => routingId),
      column(({ receivedAt }) => receivedAt),
      column(({ method }) => method),
      column(({ query }) => query),
      column(({ headers }) => JSON.stringify(headers)),
      column(({ body }) => body),
      column(({ traceparent }) => traceparent ?? null),
    ],
  });
}

type NewReply = Pick<
  NewDelivery,
  'id' | 'channelId' | 'installationId' | 'accountId' | 'routingId' | 'body' | 'traceparent'
> & {
  readonly conversationKey: string;
  /** Its files: they exist at least until it is delivered. */
  readonly mediaIds?: readonly string[];
};

/** Inserts an agent's reply for `channel.send`: an outbound delivery. Skips an existing id. */
export async function insertReply(tx: Queryable, reply: NewReply): Promise<void> {
  await tx.query(
    `WITH written AS (
       INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, received_at, method, query,
         headers, body, direction, traceparent, conversation_key)
       VALUES ($1, $2, $3, $4, $5, now(), 'SEND', '', '[]', $6, 'out', $7, $8) ON CONFLICT (id) DO NOTHING
       RETURNING id),
     -- Locked, so that no last holder removes them meanwhile.
     files AS MATERIALIZED (
       SELECT m.id FROM media m WHERE m.account_id = $4 AND m.id = ANY ($9) ORDER BY m.id FOR SHARE),
     linked AS (
       INSERT INTO delivery_media (delivery_id, media_id) SELECT written.id, files.id FROM written, files
     ) ${notifyNewDeliveriesSql(
       "SELECT $2::text AS channel_id, $4::text AS account_id, $3::text AS installation_id, 'out' AS direction",
     )}`,
    [
      reply.id,
      reply.channelId,
      reply.installationId,
      reply.accountId,
      reply.routingId,
      reply.body,
      reply.traceparent ?? null,
      reply.conversationKey,
      reply.mediaIds ?? [],
    ],
  );
}
