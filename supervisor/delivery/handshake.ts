/**
 * Answers handshakes: a vendor's check of its webhook address, while the vendor waits. If it fails, the request is
 * queued as usual.
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
import type { LinkResult } from '../calls/chain.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { requestOf } from './webhook-request.ts';

const ROW = surfaces['channel.handshake'];

interface HandshakeDeps {
  readonly services: Pick<SessionServices, 'pool' | 'invoker' | 'metrics' | 'logs'>;
  /** The supervisor's lease, which holds the claims. */
  readonly lease: number;
}

/** Answers a requested handshake, unless another supervisor claims it first. */
export async function answerAsked({ services, lease }: HandshakeDeps, id: string): Promise<void> {
  const asked = await claimHandshake(services.pool, id, lease);
  if (!asked) return;
  const plugin = await loadInstalledPlugin(services.pool, asked.installationId);
  const reply = plugin && mayAnswer(plugin) ? await ask(services, asked, plugin) : null;
  await answerHandshake(services.pool, id, reply);
}

const mayAnswer = (plugin: InstalledPlugin): boolean => mayRun(plugin) && plugin.registrations.channel.handshake;

async function ask(
  services: HandshakeDeps['services'],
  asked: ClaimedHandshake,
  plugin: InstalledPlugin,
): Promise<HandshakeReply | null> {
  const started = performance.now();
  const invocationId = randomUUIDv7();
  const deadlineAt = Date.now() + Math.min(asked.leftMs, ROW.budgetMs);
  const result = await services.invoker.invoke(plugin, {
    ...{ target: { kind: 'channel', name: 'handshake' }, invocationId, session: null, deadlineAt },
    context: {
      ...{ invocationId, settings: plugin.settings, deadlineAt: new Date(deadlineAt).toISOString() },
      request: requestOf({ ...asked, attempt: 1 }),
    },
  });
  services.metrics.targetRan({ kind: 'channel', name: 'handshake' }, plugin, result.kind, performance.now() - started);
  const reply = readReply(result);
  if ('reply' in reply) return reply.reply;
  const data = { channelId: asked.channelId, next: 'queued' };
  services.logs.system(plugin, 'error', `channel.handshake: ${reply.fault}`, { invocationId, data });
  return null;
}

function readReply(result: LinkResult): { readonly reply: HandshakeReply | null } | { readonly fault: string } {
  if (result.kind !== 'answered') return { fault: result.kind === 'cancelled' ? result.reason : result.message };
  const checked = ROW.result.safeParse(result.answer ?? undefined);
  if (checked.success) return { reply: checked.data ?? null };
  const issue = checked.error.issues[0];
  return { fault: `it returned ${issue?.path.join('.') || 'an answer'}: ${issue?.message}` };
}
