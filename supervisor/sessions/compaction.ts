/** Compaction: the first plugin that registered `compaction.summarize` summarizes a conversation. */
import { randomUUIDv7 } from 'node:crypto';
import type { z } from 'zod';
import { appendNotices, type Session } from '../../db/sessions/sessions.ts';
import { listSummarizedMessages } from '../../db/sessions/summaries.ts';
import { limits } from '../../sdk/contract/limits.ts';
import type { transcriptMessage, trigger } from '../../sdk/contract/payloads.ts';
import type { Summary } from '../../sdk/session/api-types.ts';
import { type Cancel, type ChainState, describeRequiredFailure } from '../calls/chain.ts';
import { recordCancel } from '../calls/hook-runner.ts';
import { findHookLink, listHookLinks } from '../children/account-plugins-cache.ts';
import { runSessionHook } from './hooks.ts';
import type { SessionServices } from './session-services.ts';
import { findSummaryFault } from './summary-faults.ts';

/** Messages of a transcript that a summarizer gets if the runtime sends none. */
const MESSAGES_MAX = 10_000;
const HOOK = 'compaction.summarize';

/** A summary, with outcomes of the closed set. */
interface Compaction extends Summary {
  readonly trace: ChainState['trace'];
}

type TraceStep = Compaction['trace'][number];

interface CompactionRequest {
  readonly messages?: readonly z.infer<typeof transcriptMessage>[] | undefined;
  readonly focus: string | null;
  readonly trigger: z.infer<typeof trigger>;
  /** Id of the notice about a summary that cannot be used. Default: one for each last message that is summarized. */
  readonly noticeId?: string | undefined;
}

/**
 * Has a plugin summarize, and the others judge the summary like a message that arrives. One that cannot be used is answered with
 * `builtin`, and a notice in the transcript and the plugin's log says why. A required plugin whose summary cannot be used stops the
 * compaction. A plugin that returns nothing leaves the summary to `builtin`, also if it is required.
 */
export async function summarizeTranscript(
  services: SessionServices,
  session: Session,
  request: CompactionRequest,
): Promise<Compaction> {
  const { accountId } = session;
  if (listHookLinks(await services.pluginsCache.current(accountId), HOOK).length === 0) return useBuiltin(null, []);
  const messages = request.messages ?? (await listSummarizedMessages(services.pool, session, MESSAGES_MAX));
  const last = messages.at(-1);
  const { noticeId = last && `summary-of ${last.id}` } = request;
  const context = { messages, focus: request.focus, maxChars: limits.summaryMaxChars };
  const state = await runSessionHook(services, session, HOOK, context, request.trigger, { noticeId });
  const { cancelled } = state;
  if (cancelled) return cancelCompaction(state.trace, cancelled);
  // The plugin returned nothing: it leaves the summary to the built-in summarizer.
  if (state.trace[0]?.outcome === 'unchanged') return useBuiltin(null, state.trace);
  const judged = await judgeSummary(services, session, { ...request, noticeId }, state);
  if ('stopped' in judged) return cancelCompaction(state.trace, judged.stopped);
  if ('summary' in judged)
    return { ...CONTINUE, summary: judged.summary, source: 'plugin', notice: null, trace: state.trace };
  const { fault } = judged;
  const trace = state.trace.map(refuseSummary);
  const [step] = trace;
  const link = findHookLink(await services.pluginsCache.current(accountId), HOOK, step?.installationId);
  // Uninstalled or paused meanwhile: there is no plugin to report to.
  if (!link) return useBuiltin(null, trace);
  // In a turn, all messages stay. Elsewhere, the caller summarizes them itself.
  const notice = `No plugin summarized the conversation: ${link.displayName} ${fault}.`;
  services.logs.system(link, 'warn', notice, { sessionId: session.id });
  if (link.required) {
    const cancel: Cancel = {
      reason: describeRequiredFailure(link, { what: fault }),
      by: link,
      cause: 'failure',
    };
    await recordCancel(services, { hook: HOOK, noticeId }, session, cancel);
    return cancelCompaction(trace, cancel);
  }
  const data = { kind: 'compaction_fallback', installationId: link.installationId, plugin: link.slug };
  const id = noticeId && `${noticeId}:fallback`;
  await appendNotices(services.pool, session.id, [{ id, text: notice, data }]);
  return useBuiltin(notice, trace);
}

/** `fault`: why the summary cannot be used. `stopped`: a required plugin could not judge it. */
type JudgedSummary = { readonly summary: string } | { readonly fault: string } | { readonly stopped: Cancel };

/** Models read a summary as part of every later prompt. */
async function judgeSummary(
  services: SessionServices,
  session: Session,
  { trigger, noticeId }: CompactionRequest,
  { context: { summary }, trace: [step] }: ChainState,
): Promise<JudgedSummary> {
  const unjudged = typeof summary === 'string' ? summary : '';
  const fault = findSummaryFault(step, unjudged);
  if (fault !== null) return { fault };
  const message = { id: randomUUIDv7(), from: 'summary', text: unjudged, attachments: [] };
  const options = { noticeId, excludedInstallationId: step?.installationId };
  const answer = await runSessionHook(services, session, 'middleware.inboundMessage', { message }, trigger, options);
  const { cancelled, context } = answer;
  if (cancelled?.cause === 'failure') return { stopped: cancelled };
  if (cancelled) return { fault: `returned a summary that ${cancelled.by.displayName} cancelled` };
  const { text } = context.message as typeof message;
  return findSummaryFault(step, text) === null
    ? { summary: text }
    : { fault: 'returned a summary that other plugins made too short or too long' };
}

/** An answer that is not used did not change anything, whatever the chain took it for. */
const refuseSummary = (step: TraceStep): TraceStep =>
  step.outcome === 'changed' ? { ...step, outcome: step.required ? 'vetoed_error' : 'skipped_error' } : step;

const CONTINUE = { action: 'continue', reason: null, cancelledBy: null } as const;

const useBuiltin = (notice: string | null, trace: Compaction['trace']): Compaction => ({
  ...CONTINUE,
  summary: null,
  source: 'builtin',
  notice,
  trace,
});

/** Not `builtin`: a runtime that knows no `action` must not run its own summarizer either. */
const cancelCompaction = (trace: Compaction['trace'], { reason, by }: Cancel): Compaction => ({
  action: 'cancel',
  reason,
  cancelledBy: by.slug,
  summary: null,
  source: 'plugin',
  notice: null,
  trace,
});
