/** The webhook address in front of a world: a vendor's requests come in as they do in operation. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { openWebhooks } from '../../api/ingress/webhooks.ts';
import type { Channel } from '../../db/channels.ts';
import { openListener } from '../../db/listener.ts';
import { type Answered, send } from '../api/ingress/ground.ts';
import type { Teardown } from '../harness.ts';
import { connect } from '../supervisor/channels.ts';
import { eventually, type Installed, type World } from '../supervisor/world.ts';

export interface Address {
  readonly channel: Channel;
  post(body: string, headers?: Readonly<Record<string, string>>): Promise<Answered>;
  /** Errors of the first `count` deliveries, once none of them waits; null for a good one. */
  settled(count: number): Promise<(string | null)[]>;
  /** The channel's sessions, oldest first, and what was said in each. */
  sessions(): Promise<{ id: string; texts: string[] }[]>;
}

/** Connects a channel of an installation and serves its address. */
export async function openAddress(test: Teardown, world: World, installed: Installed): Promise<Address> {
  const listener = await openListener(world.pool, () => undefined);
  test.teardown(() => listener.close());
  const webhooks = await openWebhooks({
    ...{ pool: world.pool, listener, metrics: { webhookAnswered: () => undefined }, onError: () => undefined },
    config: { DATA_DIR: world.dataDir, SPOOL_MEGABYTES: 64, WEBHOOKS_PER_SECOND: 1_000, WEBHOOK_BURST: 1_000 },
  });
  const server = createServer(webhooks.serve).listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.teardown(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await webhooks.close();
  });
  const { port } = server.address() as AddressInfo;
  const channel = await connect(world, installed);
  const path = `/webhook/plugin/${channel.routingId}`;
  return {
    channel,
    post: (body, headers = {}) => send({ port, path, method: 'POST', headers }, body),
    settled: (count) => eventually(() => settled(world, channel.id, count), 30_000),
    sessions: () => sessions(world, channel.id),
  };
}

async function settled(world: World, channelId: string, count: number) {
  const { rows } = await world.pool.query<{ last_error: string | null }>(
    `SELECT last_error FROM deliveries WHERE channel_id = $1 AND state <> 'pending' ORDER BY position`,
    [channelId],
  );
  return rows.length >= count && rows.map((row) => row.last_error);
}

async function sessions(world: World, channelId: string) {
  const { rows } = await world.pool.query<{ id: string; texts: string[] }>(
    `SELECT k.session_id AS id, array_agg(m.text ORDER BY m.position) AS texts
       FROM conversations k JOIN session_messages m ON m.session_id = k.session_id
      WHERE k.channel_id = $1 GROUP BY k.session_id ORDER BY min(m.position)`,
    [channelId],
  );
  return rows;
}
