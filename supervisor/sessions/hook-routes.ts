/** `/sessions/{id}/hooks` and `…/compaction`: a step of an agent's turn passes through the account's plugins. */

import { randomUUIDv7 } from 'node:crypto';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { countJudged, listHookCounts } from '../../db/sessions/coverage.ts';
import { boundedList } from '../../sdk/contract/bounded-list.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { SUMMARIZED_MESSAGES_MAX, transcriptMessage, trigger } from '../../sdk/contract/payloads.ts';
import { type HookName, hooks } from '../../sdk/contract/protocol.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { jsonBody, page, timestamp, wholeListQuery } from '../../service/http/schemas.ts';
import { pageWholeList } from '../../service/http/whole-lists.ts';
import { type ChainState, type Fields, linkOutcomes } from '../calls/chain.ts';
import { isMessageHook, type MessageContext } from '../calls/message-hook.ts';
import { listHookLinks } from '../children/account-plugins-cache.ts';
import { summarizeTranscript } from './compaction.ts';
import { defaultTrigger } from './default-trigger.ts';
import { runMessageHook, runSessionHook } from './hooks.ts';
import { CALL_BODY_MAX_BYTES, requireSession, type SessionServices, sessionParams } from './session-services.ts';
import { digestOf } from './turn-answers.ts';

const PREFIX = 'middleware.';
/** Metrics and traces count all hooks as one route. */
const HOOK_PATH = '/sessions/:sessionId/hooks/:hook';

const names = (Object.keys(hooks) as HookName[])
  .filter((name) => name.startsWith(PREFIX))
  .map((name) => ({ name, short: name.slice(PREFIX.length) }));

const triggerOf = (hook: HookName) =>
  trigger
    .default(defaultTrigger(hook))
    .describe('The cause of the operation. Send it: plugins may allow a person what they refuse an agent.');

const action = z.enum(['continue', 'cancel']);
const cancelledBy = z
  .string()
  .nullable()
  .describe('The slug of the plugin that cancelled the operation, or that is required and did not run.');
const trace = z.array(
  z.strictObject({
    installationId: z.string(),
    slug: z.string(),
    required: z.boolean().describe('Whether the operation stops when this plugin does not run or fails.'),
    ms: z.number(),
    outcome: z
      .enum(linkOutcomes)
      .describe(
        'skipped_*: the plugin did not run or failed, and the operation continued. vetoed_*: the plugin is required and did not run or failed, which cancelled the operation.',
      ),
    reason: z.string().optional().describe('Reason why the plugin was not called.'),
  }),
);

const hookResult = z
  .strictObject({
    action: action.describe(
      'cancel: a plugin cancelled the operation, or a required plugin did not run. Do not continue with it.',
    ),
    context: z.record(z.string(), z.unknown()).describe('The context with all changes of the chain.'),
    reason: z.string().nullable(),
    cancelledBy,
    trace,
  })
  .meta({ id: 'HookResult', description: 'The result of a hook: the changed context, and each plugin’s part.' });

const toHookResult = ({ context, trace, cancelled }: ChainState): z.infer<typeof hookResult> => ({
  action: cancelled ? 'cancel' : 'continue',
  context,
  reason: cancelled?.reason ?? null,
  cancelledBy: cancelled?.by.slug ?? null,
  trace: [...trace],
});

const hookLink = z
  .strictObject({
    name: z.string().describe('The name without the prefix, such as `outboundMessage`.'),
    installationId: z.string(),
    slug: z.string(),
    required: z.boolean().describe('Whether the operation stops when this plugin does not run or fails.'),
  })
  .meta({ id: 'HookLink', description: 'An installed plugin that a hook runs.' });

const hookCoverage = z
  .strictObject({
    name: z.string().describe('The name without the prefix, such as `outboundMessage`, or `compaction`.'),
    asked: z
      .int()
      .describe(
        'Number of runs for this session. 0: the runtime never ran it, or it is `compaction` and no plugin summarizes.',
      ),
    cancelled: z.int(),
    lastAt: timestamp.nullable(),
    messages: z
      .strictObject({ judged: z.int(), total: z.int() })
      .nullable()
      .describe('Counts of the messages in the transcript that this hook judges. Null: this hook judges no messages.'),
  })
  .meta({ id: 'HookCoverage', description: 'Shows whether the runtime of a session runs a hook.' });

const { focus } = hooks['compaction.summarize'].context.shape;
/** Takes the messages as they are added to a transcript, too, whose ids and times the host sets. */
const summarizedMessage = transcriptMessage.extend({
  id: transcriptMessage.shape.id.optional().describe('Default: a new id.'),
  at: transcriptMessage.shape.at.optional().describe('Default: the time of the request.'),
});
const compactionBody = jsonBody({
  messages: boundedList(summarizedMessage, SUMMARIZED_MESSAGES_MAX)
    .optional()
    .describe(
      'Default: the session’s transcript, without notices and the messages that plugins cancelled and, in a strict session, those that no hook judged.',
    ),
  focus: focus.default(null),
  trigger: trigger.default(defaultTrigger('compaction.summarize')),
});
const compactionResult = z
  .strictObject({
    action: action.describe(
      'cancel: a required plugin gave no usable summary. Do not compact, and do not run the turn.',
    ),
    reason: z.string().nullable(),
    cancelledBy,
    trace,
    summary: z.string().nullable().describe('Null if the source is `builtin` or the action is `cancel`.'),
    source: z.enum(['plugin', 'builtin']).describe('builtin: run the runtime’s own summarizer.'),
    notice: z.string().nullable().describe('Reason why the plugin’s summary is not used.'),
  })
  .meta({ id: 'Compaction', description: 'The summary of a conversation.' });

/**
 * The id of the notice about messages whose last one has no id, so that a repeated request adds none: the id that it gets is another one
 * each time. Undefined: that of the last message serves.
 */
function findNoticeId(messages: readonly z.infer<typeof summarizedMessage>[] = []): string | undefined {
  const last = messages.at(-1);
  if (!last || last.id !== undefined) return undefined;
  return `summary-of ${digestOf([messages.length, last.role, last.text])}`;
}

/** The role of the messages that a hook judges. */
const JUDGED_ROLES: Readonly<Record<string, string>> = { inboundMessage: 'user', outboundMessage: 'assistant' };

async function readCoverage({ pool, hookCounts }: SessionServices, sessionId: string) {
  await hookCounts.flush();
  const [counts, judged] = await Promise.all([listHookCounts(pool, sessionId), countJudged(pool, sessionId)]);
  const covered = [...names, { name: 'compaction.summarize', short: 'compaction' }];
  return covered.map(({ name, short }) => {
    const count = counts.find(({ hook }) => hook === name);
    const role = JUDGED_ROLES[short];
    const found = judged.find((one) => one.role === role);
    return {
      name: short,
      asked: count?.asked ?? 0,
      cancelled: count?.cancelled ?? 0,
      lastAt: count?.lastAt ?? null,
      messages: role === undefined ? null : { judged: found?.judged ?? 0, total: found?.total ?? 0 },
    };
  });
}

export function hookRoutes(services: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Hooks');
    app.get(
      '/sessions/:sessionId/hooks',
      {
        schema: {
          summary: 'The plugins that each hook runs, in order, and how often each hook ran',
          details:
            'As of now: the account may install, pause or remove a plugin at any time. `coverage` shows the hooks that the runtime of this session never fired, and the messages that no hook judged.',
          params: sessionParams,
          querystring: wholeListQuery,
          response: {
            200: page(hookLink).extend({
              coverage: z.array(hookCoverage),
              strict: z.boolean().describe('Whether the session refuses messages that no hook judged.'),
            }),
          },
        },
      },
      async (request) => {
        const { id, accountId, strict } = await requireSession(services, requireCaller(request), request.params);
        const plugins = await services.pluginsCache.get(accountId);
        const items = names.flatMap(({ name, short }) =>
          listHookLinks(plugins, name).map(({ installationId, slug, required }) => ({
            name: short,
            installationId,
            slug,
            required,
          })),
        );
        const links = pageWholeList(items, request.query, (link) => `${link.name} ${link.installationId}`);
        return { ...links, coverage: await readCoverage(services, id), strict };
      },
    );

    for (const { name, short } of names) {
      const { doc, context } = hooks[name];
      app.post(
        HOOK_PATH.replace(':hook', short),
        {
          config: { label: HOOK_PATH },
          bodyLimit: CALL_BODY_MAX_BYTES,
          schema: {
            summary: `Runs the hook ${short}`,
            details: doc,
            params: sessionParams,
            body: jsonBody({ context: context as z.ZodType<Fields>, trigger: triggerOf(name) }),
            response: { 200: hookResult },
            problems: isMessageHook(name) ? ['quota_exceeded'] : [],
          },
        },
        async (request) => {
          const caller = requireCaller(request);
          const known = services.sessions.peek(caller.id, request.params.sessionId);
          const session = known ?? (await requireSession(services, caller, request.params));
          const { body } = request;
          const state = isMessageHook(name)
            ? await runMessageHook(services, session, name, body.context as MessageContext, body.trigger)
            : await runSessionHook(services, session, name, body.context, body.trigger);
          return toHookResult(state);
        },
      );
    }

    app.post(HOOK_PATH, { schema: { hide: true } }, async () => {
      throw new Problem(
        'not_found',
        `No hook has this name. The hooks are ${names.map(({ short }) => short).join(', ')}.`,
      );
    });

    app.post(
      '/sessions/:sessionId/compaction',
      {
        schema: {
          summary: 'Summarizes a conversation with a plugin',
          params: sessionParams,
          body: compactionBody,
          response: { 200: compactionResult },
        },
      },
      async (request) => {
        const session = await requireSession(services, requireCaller(request), request.params);
        const now = new Date().toISOString();
        const messages = request.body.messages?.map(({ id = randomUUIDv7(), at = now, ...message }) => ({
          ...message,
          id,
          at,
        }));
        const noticeId = findNoticeId(request.body.messages);
        const summarized = { ...request.body, messages, noticeId };
        const { trace, ...result } = await summarizeTranscript(services, session, summarized);
        return { ...result, trace: [...trace] };
      },
    );
  };
}
