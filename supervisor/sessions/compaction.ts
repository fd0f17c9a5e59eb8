/** Compaction: the first plugin that registered `compaction.summarize` summarizes a conversation. */
import type { z } from 'zod';
import { appendMessages, lastMessages, type Session } from '../../db/sessions/sessions.ts';
import { limits } from '../../sdk/contract/limits.ts';
import type { transcriptMessage, trigger } from '../../sdk/contract/payloads.ts';
import type { Summary } from '../../sdk/session/api-types.ts';
import type { ChainState } from '../calls/chain.ts';
import { runChain } from '../calls/chain-runner.ts';
import { idleOf, linksOf } from '../children/account-plugins-cache.ts';
import type { SessionServices } from './session-services.ts';

/** Messages of a transcript that a summarizer gets if the runtime sends none. */
const MESSAGES_MAX = 10_000;
const HOOK = 'compaction.summarize';

interface CompactionRequest {
  readonly messages?: readonly z.infer<typeof transcriptMessage>[] | undefined;
  readonly focus: string | null;
  readonly trigger: z.infer<typeof trigger>;
}

/** A summary that cannot be used is answered with `builtin`; a notice in the transcript and the plugin's log says why. */
export async function summarizeTranscript(
  services: SessionServices,
  session: Session,
  request: CompactionRequest,
): Promise<Summary> {
  const accountPlugins = await services.pluginsCache.get(session.accountId);
  const links = linksOf(accountPlugins, HOOK);
  const idle = idleOf(accountPlugins, HOOK);
  const [link] = links;
  if (!link) return { summary: null, source: 'builtin', notice: null };
  const messages = request.messages ?? (await lastMessages(services.pool, session.id, MESSAGES_MAX));
  const context = { messages, focus: request.focus, maxChars: limits.summaryMaxChars };
  const state = await runChain(services, { hook: HOOK, links, idle, session, trigger: request.trigger, context });
  const fault = summaryFault(state);
  const { summary } = state.context;
  if (fault === null && typeof summary === 'string') return { summary, source: 'plugin', notice: null };
  const notice = `The built-in summarizer is used: ${link.slug} ${fault ?? 'returned nothing'}.`;
  const data = { kind: 'compaction_fallback', installationId: link.installationId, plugin: link.slug };
  await appendMessages(services.pool, session.id, [{ role: 'notice', text: notice, data }]);
  services.logs.system(link, 'warn', notice, { sessionId: session.id });
  return { summary: null, source: 'builtin', notice };
}

function summaryFault(state: ChainState): string | null {
  const outcome = state.trace[0]?.outcome;
  if (outcome === 'skipped_timeout') return 'took too long';
  if (outcome === 'skipped_unavailable') return 'is not running';
  if (outcome === 'skipped_error') return 'failed';
  const { summary } = state.context;
  if (typeof summary !== 'string' || summary.trim() === '') return 'returned a blank summary';
  if (summary.length > limits.summaryMaxChars) return `returned more than ${limits.summaryMaxChars} characters`;
  return null;
}
