/**
 * Answers handshakes: requests by which a vendor checks a webhook address, and waits for the response. If the plugin's handler
 * fails, the request is queued like any other.
 */
import { randomUUIDv7 } from 'node:crypto';
import {
  answerHandshake,
  type ClaimedHandshake,
  claimHandshake,
  type HandshakeReply,
} from '../../db/channels/handshakes.ts';
import { type InstalledPlugin, loadInstalledPlugin } from '../../db/installations/account-plugins.ts';
import { mayRun } from '../../db/installations/run-rule.ts';
import { surfaces } from '../../sdk/contract/protocol.ts';
import { pickStack } from '../calls/plugin-call.ts';
import type { Ownership } from '../cluster/ownership.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { callChannelHandler } from './channel-call.ts';
import { splitHandshakeHeaders } from './handshake-headers.ts';
import { toRequest } from './webhook-request.ts';

interface HandshakeDeps {
  readonly services: Pick<SessionServices, 'pool' | 'invoker' | 'metrics' | 'logs'>;
  readonly ownership: Pick<Ownership, 'begin'>;
}

/** Answers a handshake that an API has requested, if this supervisor owns the account. */
export async function answerRequestedHandshake(
  { services, ownership }: HandshakeDeps,
  id: string,
  accountId: string,
): Promise<void> {
  const work = ownership.begin(accountId);
  if (!work) return;
  try {
    const claimed = await claimHandshake(services.pool, id, work.fence);
    if (!claimed) return;
    const plugin = claimed.isRetired ? null : await loadInstalledPlugin(services.pool, claimed.installationId);
    const reply =
      plugin && mayRun(plugin) && plugin.registrations.channel.handshake
        ? await callHandshake(services, claimed, plugin)
        : null;
    await answerHandshake(services.pool, id, work.fence.epoch, reply);
  } finally {
    work.end();
  }
}

async function callHandshake(
  services: HandshakeDeps['services'],
  asked: ClaimedHandshake,
  plugin: InstalledPlugin,
): Promise<HandshakeReply | null> {
  const invocationId = randomUUIDv7();
  const result = await callChannelHandler(services, plugin, {
    name: 'handshake',
    invocationId,
    budgetMs: Math.min(asked.leftMs, surfaces['channel.handshake'].budgetMs),
    fields: { request: toRequest({ ...asked, attempt: 1 }) },
  });
  if (result.kind === 'answered') {
    const reply = (result.answer as HandshakeReply | undefined) ?? null;
    const { note } = splitHandshakeHeaders(reply?.headers);
    if (note !== null) services.logs.system(plugin, 'warn', note, { invocationId });
    return reply;
  }
  const fault = result.kind === 'cancelled' ? result.reason : result.message;
  const data = { channelId: asked.channelId, next: 'queued', ...pickStack(result) };
  services.logs.system(plugin, 'error', `channel.handshake: ${fault}`, { invocationId, data });
  return null;
}
