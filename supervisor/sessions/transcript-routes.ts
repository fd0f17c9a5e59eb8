/** `/sessions/{id}/messages`, `…/replies` and `/sessions/stream`: reads and writes transcripts. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { inTransaction } from '../../db/postgres/pool.ts';
import { pageOrders } from '../../db/postgres/rows.ts';
import { isMessagePosition, openSessionTail } from '../../db/sessions/session-tail.ts';
import { addMessages, type NewMessage, pageMessages } from '../../db/sessions/sessions.ts';
import { KeyedLocks } from '../../db/timing/keyed-locks.ts';
import { boundedList } from '../../sdk/contract/bounded-list.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { attachments, jsonObject, role, TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import { endWithToken, requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { eventStreamHeaders } from '../../service/http/row-streams.ts';
import { jsonBody, newId, page, pageQuery, queryFlag, storedId, storedText } from '../../service/http/schemas.ts';
import { COSTLY_BYTES, waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import { sendReply } from './replies.ts';
import { requireSession, type SessionServices, sessionParams } from './session-services.ts';
import { addOpenEvent, addToolEvents } from './session-streams.ts';
import { isSameJson } from './turn-answers.ts';
import { messageResource } from './turn-schemas.ts';

/** Maximum number of messages added by one call. */
const MESSAGES_MAX = 1_000;
/** Values of the `data` of all messages of one call. As many take some 20 ms to store and answer. */
const DATA_VALUES_MAX = 20_000;
const OWN_ID =
  'The runtime’s own id of the message. A message with a known id is not added again; if it is another message, the request is refused with 409 `id_reused`. Default: a random id.';

/** Whether there are no more than `DATA_VALUES_MAX` values, at all levels. */
function haveFewValues(messages: readonly { readonly data?: unknown }[]): boolean {
  const waiting: unknown[] = messages.map(({ data }) => data);
  let count = 0;
  while (waiting.length > 0 && count + waiting.length <= DATA_VALUES_MAX) {
    const value = waiting.pop();
    count += 1;
    if (typeof value === 'object' && value !== null) for (const part of Object.values(value)) waiting.push(part);
  }
  return waiting.length === 0;
}

const newMessages = jsonBody({
  messages: boundedList(
    z.object({
      id: newId.optional().describe(OWN_ID),
      role,
      text: storedText(TEXT_MAX_CHARS),
      data: jsonObject.optional(),
    }),
    MESSAGES_MAX,
  )
    .min(1)
    .refine(haveFewValues, `must have at most ${DATA_VALUES_MAX} values in their data together`),
});
const newReply = jsonBody({
  id: newId.optional().describe(OWN_ID),
  text: storedText(TEXT_MAX_CHARS),
  attachments: attachments.default([]),
});
const streamQuery = z.object({
  sessionId: storedId.optional().describe('Sends only the events of this session.'),
  agentId: storedId.optional().describe('Sends only the events of the sessions of this agent.'),
  changes: queryFlag
    .default(false)
    .describe(
      'Whether the stream has more types of events: open at its start, with position and gap (true: events may have been missed since Last-Event-ID, so read the sessions again); cleared and deleted, each with sessionId, agentId and at; and tools when the list of tools changed: with the same fields if a runtime changed the tools of a session, without them if the plugins of the account changed.',
    ),
});
const streamHeaders = z.looseObject({
  'last-event-id': z
    .string()
    .refine((id) => id === '' || isMessagePosition(id), 'must be an id of this stream, or be left out')
    .optional(),
});

const STREAM_DETAILS =
  'Sends server-sent events of the types message and notice, in the order in which they were added to the sessions of the account, each with the session’s id and the message as JSON. Messages that overlapping requests add at the same time may come in another order than in the transcript; prompts have the order of the transcript. Without Last-Event-ID the stream starts with the next new message; with it, after the event of that id. The data.kind of a notice is cancelled (with the cause failure if a required plugin did not run), delivery_failed, reminder_failed or compaction_fallback. A comment is sent every 15 seconds. The stream ends after 15 minutes: reconnect with Last-Event-ID.';

const shapes = {
  stream: {
    summary: 'Messages and notices as they are added',
    details: STREAM_DETAILS,
    headers: streamHeaders,
    querystring: streamQuery,
    problems: ['not_found'],
    response: { 200: { content: { 'text/event-stream': { schema: z.string() } } } },
  },
  append: {
    summary: 'Adds messages to the transcript',
    details: `\`host.session\` and compactions read the transcript. No hook runs, so a strict session refuses the request with 409 \`not_judged\`. The messages of one call have at most ${DATA_VALUES_MAX} values in their data.`,
    problems: ['not_judged', 'id_reused', 'quota_exceeded'],
    params: sessionParams,
    body: newMessages,
    response: { 200: z.strictObject({ items: z.array(messageResource) }) },
  },
  list: {
    summary: 'The transcript',
    details: 'A page of large messages may end before its limit: continue while there is a nextCursor.',
    params: sessionParams,
    querystring: pageQuery.extend({
      order: z.enum(pageOrders).default('oldest').describe('The messages that come first.'),
    }),
    response: { 200: page(messageResource) },
  },
  reply: {
    summary: 'Sends an agent’s reply to the channel of the session',
    details:
      'Runs the hook `outboundMessage`, adds the reply to the transcript and delivers it through `channel.send`, with retries.',
    problems: ['no_channel', 'cancelled', 'id_reused', 'quota_exceeded'],
    params: sessionParams,
    body: newReply,
    response: { 202: z.strictObject({ id: z.string() }) },
  },
} satisfies Record<string, FastifySchema>;

/** For each role, the route on which hooks judge its messages. */
const JUDGING_ROUTES: Readonly<Partial<Record<z.infer<typeof role>, string>>> = {
  user: 'Open a turn with a message of the user: POST /sessions/{id}/turns.',
  assistant: 'Send a text of the agent as the output of a turn: POST /sessions/{id}/turns/{turnId}/output.',
  tool: 'Call a tool in a turn, and send the result of your own tools: POST /sessions/{id}/turns/{turnId}/calls/{callId}/result.',
  system: 'Give the system prompt to a turn: POST /sessions/{id}/turns.',
};

function createStrictProblem(messages: readonly { readonly role: z.infer<typeof role> }[]): Problem {
  const routes = new Set(messages.flatMap((message) => JUDGING_ROUTES[message.role] ?? []));
  return new Problem('not_judged', ['This session is strict: it takes only what hooks judged.', ...routes].join(' '));
}

/**
 * Compares messages that were not added with those that have their ids. What plugins have changed may differ, because the text
 * that was sent is not kept.
 *
 * @throws Problem `id_reused`
 */
function requireSameMessages(
  sent: readonly NewMessage[],
  { stored, addedIds }: Awaited<ReturnType<typeof addMessages>>,
): void {
  const byId = new Map(stored.map((message) => [message.id, message]));
  const added = new Set(addedIds);
  for (const { id, role: sentRole, text, data } of sent) {
    // Of messages with the same id in one request, the first is the one that was added.
    if (id === undefined || added.delete(id)) continue;
    const known = byId.get(id);
    if (!known) continue;
    const { judgement } = known;
    const isSameText = known.text === text || (judgement !== undefined && judgement.outcome !== 'unchanged');
    // The host adds data to a message when it is judged.
    const isSameData = judgement !== undefined || isSameJson(known.data ?? null, data ?? null);
    if (known.role !== sentRole || !isSameText || !isSameData)
      throw new Problem(
        'id_reused',
        `The id “${id}” belongs to another message of this session, so none of these was added. Use a new id for a new message.`,
      );
  }
}

export function transcriptRoutes(services: SessionServices): FastifyPluginAsyncZod {
  const { pool, streams } = services;
  const lists = new KeyedLocks();
  return async (app) => {
    groupRoutes(app, 'Sessions');
    app.addHook('preClose', async () => streams.close());

    app.get(
      '/sessions/stream',
      {
        // A HEAD request would keep the stream open without a reader.
        exposeHeadRoute: false,
        schema: shapes.stream,
      },
      async (request, reply) => {
        const caller = requireCaller(request);
        const accountId = caller.id;
        const after = request.headers['last-event-id'] || null;
        const { sessionId = null, agentId = null, changes } = request.query;
        if (sessionId !== null) await requireSession(services, caller, { sessionId });
        const openTail = async () => {
          const tail = await openSessionTail(pool, accountId, after, { sessionId, agentId, changes });
          return changes ? addToolEvents(addOpenEvent(tail), services.pluginsCache, accountId) : tail;
        };
        const stream = await streams.open({
          accountId,
          key: accountId,
          response: reply.raw,
          openTail,
          isThere: async () => true,
        });
        endWithToken(request, reply, () => stream.end());
        return reply.headers(eventStreamHeaders).send(stream as never);
      },
    );

    app.post('/sessions/:sessionId/messages', { schema: shapes.append }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      if (session.strict) throw createStrictProblem(request.body.messages);
      const { messages } = request.body;
      const items = await inTransaction(pool, async (tx) => {
        const added = await addMessages(tx, session.id, messages);
        requireSameMessages(messages, added);
        return added.stored;
      });
      // Another supervisor deleted the session after it was found.
      if (items.length === 0) throw new Problem('not_found', 'You have no session with this id.');
      return { items };
    });

    app.get('/sessions/:sessionId/messages', { schema: shapes.list }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      // The driver parses each page in one piece, and those that arrive together in the same turn of the loop.
      return lists.run(session.accountId, async () => {
        const { bytes, ...listed } = await pageMessages(pool, { sessionId: session.id, ...request.query });
        if (bytes > COSTLY_BYTES) await waitForLoopTurn(session.accountId);
        return listed;
      });
    });

    app.post('/sessions/:sessionId/replies', { schema: shapes.reply }, async (request, reply) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      return reply.code(202).send({ id: await sendReply(services, session, request.body) });
    });
  };
}
