/** Channels and deliveries as the API would write them, for tests of the supervisor alone. */
import { randomUUIDv7 } from 'node:crypto';
import { type Channel, insertChannel } from '../../../db/channels/channels.ts';
import { insertDeliveries } from '../../../db/channels/deliveries.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { currentTrace } from '../../../service/telemetry/tracing.ts';
import type { Installed, SupervisorFixture } from '../supervisor-fixture.ts';

/** Keeps what it was called with in its storage. */
export const recorder = (answer = '') =>
  `channel.receive = async (request) => {
    await host.storage.set('seen', [...((await host.storage.get('seen')) ?? []),
      { id: request.deliveryId, attempt: request.attempt, text: request.bodyText }]);
    ${answer}
  };`;

/** Connects a channel. */
export const connect = (fixture: SupervisorFixture, made: Installed, name = 'inbox'): Promise<Channel> =>
  inTransaction(fixture.pool, (tx) =>
    insertChannel(tx, { installationId: made.installationId, accountId: made.accountId, name }),
  );

/** A request to a channel's webhook address, as it was received. */
export const describeRequest = (made: Installed, channel: Channel, body: string | Uint8Array) => ({
  id: randomUUIDv7(),
  channelId: channel.id,
  installationId: made.installationId,
  accountId: made.accountId,
  routingId: channel.routingId,
  receivedAt: Date.now(),
  method: 'POST',
  query: '',
  headers: [],
  body: Buffer.from(body),
});

/** Takes requests in, in order. Answers their ids. */
export async function deliver(
  fixture: SupervisorFixture,
  made: Installed,
  channel: Channel,
  bodies: readonly (string | Uint8Array)[],
  headers: readonly (readonly [string, string])[] = [],
): Promise<string[]> {
  const rows = bodies.map((body) => ({
    ...describeRequest(made, channel, body),
    query: 'a=1',
    headers,
    traceparent: currentTrace(),
  }));
  await insertDeliveries(fixture.pool, rows);
  return rows.map((row) => row.id);
}

/** How a delivery is doing. Without its body: waiting tests read this again and again, and bodies have up to 5 MiB. */
export async function rowOf(fixture: SupervisorFixture, id: string) {
  const { rows } = await fixture.pool.query(
    `SELECT state, attempts, interruptions, claimed_by, set_aside, next_attempt_at, last_error
       FROM deliveries WHERE id = $1`,
    [id],
  );
  return rows[0];
}
