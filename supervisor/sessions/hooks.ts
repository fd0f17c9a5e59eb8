/** `POST /sessions/{id}/hooks/{hook}` and `…/compaction`: an agent's turn passes through the account's plugins. */
import { closest } from 'fastest-levenshtein';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { appendMessages, lastMessages, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { trigger } from '../../sdk/contract/payloads.ts';
import { type HookName, hooks } from '../../sdk/contract/protocol.ts';
import type { Summary } from '../../sdk/session/api-types.ts';
import type { ChainState, Fields } from '../calls/chain.ts';
import { runChain } from '../calls/chain-runner.ts';
import { runHook } from '../calls/hook-runner.ts';
import { idleOf, linksOf } from '../children/account-plugins-cache.ts';
import { read, readBody } from './input.ts';
import type { SessionParams, SessionServices } from './session-services.ts';

const PREFIX = 'middleware.';
/** `systemPrompt` → the row's key. */
const byShortName = new Map<string, HookName>(
  (Object.keys(hooks) as HookName[])
    .filter((name) => name.startsWith(PREFIX))
    .map((name) => [name.slice(PREFIX.length), name]),
);
/** Messages of a transcript that a summarizer is given when the runtime names none. */
const COMPACTION_MESSAGES = 10_000;

const hookBody = z.object({ context: z.record(z.string(), z.unknown()), trigger: trigger.default('user') });
const compactionBody = z.object({
  messages: hooks['compaction.summarize'].context.shape.messages.optional(),
  focus: hooks['compaction.summarize'].context.shape.focus.default(null),
  trigger: trigger.default('system'),
});

export interface HookAnswer {
  readonly action: 'continue' | 'cancel';
  readonly context: Fields;
  readonly reason: string | null;
  readonly cancelledBy: ChainState['trace'][number]['slug'] | null;
  readonly trace: ChainState['trace'];
}

/** The hook of a URL. @throws Problem `not_found` that offers the nearest name */
export function hookNamed(short: string): HookName {
  const hook = byShortName.get(short);
  if (hook) return hook;
  const nearest = closest(short.slice(0, 100), [...byShortName.keys()]);
  throw new Problem('not_found', `There is no hook of that name. Did you mean ${nearest}?`);
}

/**
 * Runs a hook for a session.
 *
 * @param noticeId id of the notice that a cancel leaves in the transcript, so that a repeated run writes it once
 */
export async function runSessionHook(
  services: SessionServices,
  session: Session,
  hook: HookName,
  context: Fields,
  by: z.infer<typeof trigger>,
  noticeId?: string,
): Promise<HookAnswer> {
  const {
    cancelled,
    trace,
    context: result,
  } = await runHook(services, {
    hook,
    accountId: session.accountId,
    session,
    context,
    trigger: by,
    noticeId,
  });
  return {
    action: cancelled ? 'cancel' : 'continue',
    context: result,
    reason: cancelled?.reason ?? null,
    cancelledBy: cancelled?.by.slug ?? null,
    trace,
  };
}

/** Installs the routes. */
export function installHooks(app: FastifyInstance, services: SessionServices): void {
  app.post<{ Params: SessionParams & { hook: string } }>('/sessions/:sessionId/hooks/:hook', async (request) => {
    const { sessionId } = request.params;
    const session =
      services.sessions.peek(request.accountId, sessionId) ??
      (await services.sessions.get(request.accountId, sessionId));
    const hook = hookNamed(request.params.hook);
    const body = readBody(hookBody, request.body);
    const context: Fields = read(hooks[hook].context, body.context, 'context');
    return runSessionHook(services, session, hook, context, body.trigger);
  });
  app.post<{ Params: SessionParams }>('/sessions/:sessionId/compaction', async (request) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    const body = readBody(compactionBody, request.body);
    return compact(services, session, body);
  });
}

async function compact(
  services: SessionServices,
  session: Session,
  body: z.infer<typeof compactionBody>,
): Promise<Summary> {
  const accountPlugins = await services.pluginsCache.get(session.accountId);
  const hook = 'compaction.summarize';
  const [links, idle] = [linksOf(accountPlugins, hook), idleOf(accountPlugins, hook)];
  const link = links[0];
  if (!link) return { summary: null, source: 'builtin', notice: null };
  const messages = body.messages ?? (await lastMessages(services.pool, session.id, COMPACTION_MESSAGES));
  const context = { messages, focus: body.focus, maxChars: limits.summaryMaxChars };
  const state = await runChain(services, { hook, links, idle, session, trigger: body.trigger, context });
  const fault = summaryFault(state);
  const summary = state.context.summary;
  if (fault === null && typeof summary === 'string') return { summary, source: 'plugin', notice: null };
  const notice = `The built-in summarizer is used: ${link.slug} ${fault ?? 'answered with nothing'}.`;
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
  const summary = state.context.summary;
  if (typeof summary !== 'string' || summary.trim() === '') return 'answered with a blank summary';
  if (summary.length > limits.summaryMaxChars) return `answered with more than ${limits.summaryMaxChars} characters`;
  return null;
}
