/** The webhook address in front of a supervisor: a vendor's requests come in as they do in operation. */
import type { Channel } from '../../db/channels/channels.ts';
import { serveWebhooks } from '../api/ingress/serving.ts';
import { type Answered, send } from '../api/ingress/webhook-fixture.ts';
import { eventually } from '../runner/eventually.ts';
import type { Teardown } from '../runner/harness.ts';
import { connect } from '../supervisor/delivery/channels.ts';
import type { Installed, SupervisorFixture } from '../supervisor/supervisor-fixture.ts';

export interface Address {
  readonly channel: Channel;
  post(body: string, headers?: Readonly<Record<string, string>>): Promise<Answered>;
  /** Errors of the first `count` deliveries, once none of them waits; null for a good one. */
  settled(count: number): Promise<(string | null)[]>;
  /** The channel's sessions, oldest first, and what was said in each. */
  sessions(): Promise<{ id: string; texts: string[] }[]>;
}

/** Connects a channel of an installation and serves its address. */
export async function openAddress(test: Teardown, fixture: SupervisorFixture, installed: Installed): Promise<Address> {
  const port = await serveWebhooks(test, fixture);
  const channel = await connect(fixture, installed);
  const path = `/webhook/plugin/${channel.routingId}`;
  return {
    channel,
    post: (body, headers = {}) => send({ port, path, method: 'POST', headers }, body),
    settled: (count) => eventually(() => settled(fixture, channel.id, count)),
    sessions: () => sessions(fixture, channel.id),
  };
}

async function settled(fixture: SupervisorFixture, channelId: string, count: number) {
  const { rows } = await fixture.pool.query<{ last_error: string | null }>(
    `SELECT last_error FROM deliveries WHERE channel_id = $1 AND state <> 'pending' ORDER BY position`,
    [channelId],
  );
  return rows.length >= count && rows.map((row) => row.last_error);
}

async function sessions(fixture: SupervisorFixture, channelId: string) {
  const { rows } = await fixture.pool.query<{ id: string; texts: string[] }>(
    `SELECT k.session_id AS id, array_agg(m.text ORDER BY m.position) AS texts
       FROM conversations k JOIN session_messages m ON m.session_id = k.session_id
      WHERE k.channel_id = $1 GROUP BY k.session_id ORDER BY min(m.position)`,
    [channelId],
  );
  return rows;
}
