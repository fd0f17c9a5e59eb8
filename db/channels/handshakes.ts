/**
 * Handshakes: requests of vendors that the plugin must answer at once. The API stores the request and waits; the supervisor that owns
 * the account claims it and stores the plugin's answer.
 */
import type { Pool } from 'pg';
import { waitForAnswer } from '../postgres/answered-request.ts';
import type { Listener } from '../postgres/listener.ts';
import {
  notifyHandshakeAnsweredSql,
  notifyHandshakeRequestedSql,
  subscribeToHandshakeAnswers,
} from '../postgres/notifications.ts';
import { type Fence, holdShardSql } from '../postgres/pool.ts';
import { findRow, findValue } from '../postgres/rows.ts';
import type { NewDelivery } from './deliveries.ts';
import type { ClaimedDelivery } from './delivery-queue.ts';

/** How long a vendor's request waits for `channel.handshake`. Milliseconds. */
export const HANDSHAKE_TIMEOUT_MS = 2_500;
/** Poll interval: covers notifications lost during a reconnect. Milliseconds. */
const POLL_MS = 250;

/** The plugin's answer to the vendor. `body` absent: an empty body. */
export interface HandshakeReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
}
export interface ClaimedHandshake
  extends Omit<
    ClaimedDelivery,
    'direction' | 'setAside' | 'accountId' | 'attempt' | 'interruptions' | 'isReplayed' | 'traceparent'
  > {
  /** Time left, milliseconds. */
  readonly leftMs: number;
  /** Whether its address was replaced or disconnected meanwhile: an API learns of it later, or while a body arrives. */
  readonly isRetired: boolean;
}

/**
 * Requests a handshake and waits. Null: the plugin did not answer in time, or has no answer.
 *
 * @throws the database's error; one that does not respond may take longer than `HANDSHAKE_TIMEOUT_MS`
 */
export async function requestHandshake(
  { pool, listener }: { readonly pool: Pool; readonly listener: Listener },
  delivery: NewDelivery,
): Promise<HandshakeReply | null> {
  const { id } = delivery;
  const answer = await waitForAnswer<{ reply: HandshakeReply | null }>(listener, {
    id,
    subscribe: subscribeToHandshakeAnswers,
    send: () => insertHandshake(pool, delivery),
    readAnswer: () => findValue(pool, 'SELECT answer FROM handshakes WHERE id = $1', [id]),
    deleteRow: () => pool.query('DELETE FROM handshakes WHERE id = $1', [id]),
    timeoutMs: HANDSHAKE_TIMEOUT_MS,
    pollMs: POLL_MS,
  });
  return answer?.reply ?? null;
}

async function insertHandshake(pool: Pool, { body, ...head }: NewDelivery): Promise<void> {
  await pool.query(
    `WITH written AS (
       INSERT INTO handshakes (id, channel_id, installation_id, routing_id, received_at, method, query, headers, body)
       VALUES ($1, $2, $3, $4, to_timestamp($5 / 1000.0), $6, $7, $8, $9) RETURNING id
     ) ${notifyHandshakeRequestedSql('SELECT id, $10::text AS account_id FROM written')}`,
    [
      head.id,
      head.channelId,
      head.installationId,
      head.routingId,
      head.receivedAt,
      head.method,
      head.query,
      JSON.stringify(head.headers),
      body,
      head.accountId,
    ],
  );
}

/** Null: another supervisor claimed it before, or its time is over. */
export async function claimHandshake(pool: Pool, id: string, fence: Fence): Promise<ClaimedHandshake | null> {
  const row = await findRow<ClaimedHandshake>(
    pool,
    `UPDATE handshakes SET claimed_by = $2 WHERE id = $1 AND claimed_by IS NULL AND ${holdShardSql(fence)}
      RETURNING id, channel_id AS "channelId", installation_id AS "installationId", routing_id AS "routingId",
        received_at AS "receivedAt", method, query, headers, body,
        NOT EXISTS (SELECT 1 FROM channel_addresses a
                     WHERE a.routing_id = handshakes.routing_id AND a.retired_at IS NULL) AS "isRetired",
        ($3 - extract(epoch FROM clock_timestamp() - created_at) * 1000)::float8 AS "leftMs"`,
    [id, fence.epoch, HANDSHAKE_TIMEOUT_MS],
  );
  return row && row.leftMs > 0 ? row : null;
}

/**
 * @param epoch of the claim, which fences the write
 * @param reply null: the plugin has no answer
 */
export async function answerHandshake(
  pool: Pool,
  id: string,
  epoch: number,
  reply: HandshakeReply | null,
): Promise<void> {
  await pool.query(
    `WITH answered AS (UPDATE handshakes SET answer = $3 WHERE id = $1 AND claimed_by = $2 RETURNING id)
     ${notifyHandshakeAnsweredSql('SELECT id FROM answered')}`,
    [id, epoch, JSON.stringify({ reply })],
  );
}

export async function sweepHandshakes(pool: Pool): Promise<void> {
  await pool.query(`DELETE FROM handshakes WHERE created_at < now() - interval '1 minute'`);
}
