/** The API's question "what does the plugin answer this vendor at once?", answered by whichever supervisor is first. */
import type { Pool } from 'pg';
import type { Listener } from '../postgres/listener.ts';
import {
  notifyHandshakeAnsweredSql,
  notifyHandshakeRequestedSql,
  subscribeToHandshakeAnswers,
} from '../postgres/notifications.ts';
import type { NewDelivery, RawHeader } from './deliveries.ts';

/** What a vendor waits for, contract §7. Milliseconds. */
export const HANDSHAKE_WITHIN_MS = 2_500;
/** Looks at the row besides the notice, milliseconds. */
const BACKSTOP_MS = 250;

/** A plugin's answer; `body` absent: empty. */
export interface HandshakeReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
}
/** A handshake as a supervisor gets it. */
export interface ClaimedHandshake {
  readonly id: string;
  readonly channelId: string;
  readonly installationId: string;
  readonly routingId: string;
  readonly receivedAt: Date;
  readonly method: string;
  readonly query: string;
  readonly headers: readonly RawHeader[];
  readonly body: Buffer;
  /** What is left of the time, milliseconds. */
  readonly leftMs: number;
}

/** Asks, and waits. Null: no answer in time, or the plugin has none. */
export async function requestHandshake(
  { pool, listener }: { readonly pool: Pool; readonly listener: Listener },
  delivery: NewDelivery,
  withinMs: number = HANDSHAKE_WITHIN_MS,
): Promise<HandshakeReply | null> {
  const until = performance.now() + withinMs;
  let wake: () => void = () => undefined;
  const look = () => wake();
  const subscription = await subscribeToHandshakeAnswers(listener, (id) => id === delivery.id && look(), look);
  try {
    await insertHandshake(pool, delivery);
    for (let left = withinMs; left > 0; left = until - performance.now()) {
      const noticed = Promise.withResolvers<void>();
      wake = noticed.resolve;
      const timer = setTimeout(noticed.resolve, Math.min(left, BACKSTOP_MS));
      await noticed.promise;
      clearTimeout(timer);
      const found = await pool.query<{ answer: { reply: HandshakeReply | null } | null }>(
        'SELECT answer FROM handshakes WHERE id = $1',
        [delivery.id],
      );
      const answer = found.rows[0]?.answer;
      if (answer) return answer.reply;
    }
    return null;
  } finally {
    await subscription.close();
    await pool.query('DELETE FROM handshakes WHERE id = $1', [delivery.id]).catch(() => undefined);
  }
}

async function insertHandshake(pool: Pool, { body, ...head }: NewDelivery): Promise<void> {
  await pool.query(
    `WITH written AS (
       INSERT INTO handshakes (id, channel_id, installation_id, routing_id, received_at, method, query, headers, body)
       VALUES ($1, $2, $3, $4, to_timestamp($5 / 1000.0), $6, $7, $8, $9) RETURNING id
     ) ${notifyHandshakeRequestedSql('SELECT id FROM written')}`,
    [
      ...[head.id, head.channelId, head.installationId, head.routingId, head.receivedAt, head.method, head.query],
      ...[JSON.stringify(head.headers), body],
    ],
  );
}

/** Takes a question, unless another supervisor was faster or its time is over. */
export async function claimHandshake(pool: Pool, id: string, lease: number): Promise<ClaimedHandshake | null> {
  const found = await pool.query<ClaimedHandshake>(
    `UPDATE handshakes SET claimed_by = $2 WHERE id = $1 AND claimed_by IS NULL
      RETURNING id, channel_id AS "channelId", installation_id AS "installationId", routing_id AS "routingId",
        received_at AS "receivedAt", method, query, headers, body,
        ($3 - extract(epoch FROM clock_timestamp() - created_at) * 1000)::float8 AS "leftMs"`,
    [id, lease, HANDSHAKE_WITHIN_MS],
  );
  const [row] = found.rows;
  return row && row.leftMs > 0 ? row : null;
}

/** Answers a claimed question. Null: the plugin has no answer. */
export async function answerHandshake(pool: Pool, id: string, reply: HandshakeReply | null): Promise<void> {
  await pool.query(
    `WITH answered AS (UPDATE handshakes SET answer = $2 WHERE id = $1 RETURNING id)
     ${notifyHandshakeAnsweredSql('SELECT id FROM answered')}`,
    [id, JSON.stringify({ reply })],
  );
}

/** Removes questions whose askers are gone. */
export async function sweepHandshakes(pool: Pool): Promise<void> {
  await pool.query(`DELETE FROM handshakes WHERE created_at < now() - interval '1 minute'`);
}
