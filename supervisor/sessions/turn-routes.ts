/** `/sessions/{id}/turns`: one turn of an agent, step by step. */

import { randomUUIDv7 } from 'node:crypto';
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { pageInbox } from '../../db/sessions/inbox.ts';
import { listCalls } from '../../db/sessions/tool-calls.ts';
import { listOutputs, outboundModes } from '../../db/sessions/turn-outputs.ts';
import { pageTurns, turnOrders, turnStates } from '../../db/sessions/turns.ts';
import {
  attachment,
  attachments,
  json,
  judgement,
  TEXT_MAX_CHARS,
  toolResult,
  trigger,
} from '../../sdk/contract/payloads.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { answerCreated } from '../../service/http/created.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { anyJson, jsonBody, page, pageQuery, storedId, storedText, timestamp } from '../../service/http/schemas.ts';
import { abortWhenClosed } from './closed-requests.ts';
import { CALL_BODY_MAX_BYTES, requireSession, type SessionServices, sessionParams } from './session-services.ts';
import { answerOwnCall, callToolInTurn, describeCall, requireCall } from './tool-journal.ts';
import { toolResource, toolResultResource } from './tool-routes.ts';
import { messageResource } from './transcript-routes.ts';
import { sendPiece, sendWholeOutput } from './turn-outputs.ts';
import { readPrompt } from './turn-prompt.ts';
import { describeTurn, endTurnWith, openTurn, requireTurn } from './turns.ts';

/** Ids of messages are made of the ids of turns and outputs, and have at most 200 characters. */
const STEP_ID_MAX_CHARS = 150;
const FROM_MAX_CHARS = 500;
const TARGET_MAX_CHARS = 500;
const MODEL_MAX_CHARS = 200;
const TOOL_NAME_MAX_CHARS = 300;
const LEASE_DEFAULT_S = 120;
const LEASE_MAX_S = 3_600;
/** Maximum number of pieces of an output. */
const PIECES_MAX = 100_000;
const COMPACT_AFTER_MAX = 900;
const KEEP_DEFAULT = 4;

const stepId = storedText(STEP_ID_MAX_CHARS).min(1, 'must not be empty');
const turnParams = sessionParams.extend({ turnId: z.string() });
const callParams = turnParams.extend({ callId: storedId });
const runtimeHeaders = z.looseObject({
  'bulkhead-runtime': storedId
    .optional()
    .describe('A name of the runtime that takes the step. Default: the token. The lease of a turn belongs to it.'),
});

const promptFields = {
  compactAfter: z.coerce
    .number()
    .int()
    .min(1)
    .max(COMPACT_AFTER_MAX)
    .optional()
    .describe('Number of messages beyond which a plugin summarizes the older ones. Default: never.'),
  keep: z.coerce
    .number()
    .int()
    .min(0)
    .max(COMPACT_AFTER_MAX)
    .default(KEEP_DEFAULT)
    .describe('Number of recent messages that a summary does not replace.'),
};
const promptBody = jsonBody({
  ...promptFields,
  systemPrompt: storedText(TEXT_MAX_CHARS).optional().describe('Default: as the turn was opened.'),
  model: storedText(MODEL_MAX_CHARS).optional().describe('Default: as the turn was opened.'),
});
const newTurn = jsonBody({
  id: stepId.describe('An id of the runtime’s own. The message gets it too. The same id answers the same turn.'),
  from: z.string().min(1).max(FROM_MAX_CHARS).default('user').describe('The sender, as plugins see it.'),
  text: storedText(TEXT_MAX_CHARS)
    .optional()
    .describe('Default: the text of the message of the transcript that has this id, such as a channel’s.'),
  attachments: attachments.default([]),
  trigger: trigger.describe('What started the turn. Plugins see it in every hook of the turn.'),
  systemPrompt: storedText(TEXT_MAX_CHARS).default('').describe('Default: the instructions of the account’s agent.'),
  model: storedText(MODEL_MAX_CHARS).default('').describe('The model that will be asked, as plugins see it.'),
  leaseSeconds: z
    .int()
    .min(1)
    .max(LEASE_MAX_S)
    .default(LEASE_DEFAULT_S)
    .describe('How long the turn belongs to the runtime after each of its steps.'),
  prompt: z
    .union([z.boolean(), z.object(promptFields)])
    .default(false)
    .describe('Whether to answer the prompt of the opened turn, too: true, or the fields of a prompt.'),
});

const verdict = {
  action: z.enum(['continue', 'cancel']).describe('cancel: the step did not happen. Do not go on with it.'),
  reason: z.string().nullable(),
  cancelledBy: z
    .string()
    .nullable()
    .describe('The slug of the plugin that cancelled, or that is required and did not run.'),
  isFinal: z.boolean().describe('False: a required plugin did not run. The same step may pass later.'),
};
const judged = judgement.nullable().describe('What the plugins made of it. Null: it is not judged.');

const turnResource = z
  .strictObject({
    ...verdict,
    id: z.string(),
    sessionId: z.string(),
    state: z
      .enum(turnStates)
      .describe(
        'judging: open it again with the same id. open: take its steps. vetoed: a plugin cancelled its message. cleared: the session was cleared.',
      ),
    trigger,
    message: z
      .strictObject({
        id: z.string(),
        from: z.string(),
        text: z.string(),
        attachments: z.array(attachment),
        judgement: judged,
      })
      .nullable()
      .describe('As the plugins let it pass. Null: it did not pass, or was removed.'),
    lease: z.strictObject({ runtime: z.string(), until: timestamp }),
    openedAt: timestamp,
    endedAt: timestamp.nullable(),
    replyId: z.string().nullable().describe('The output that ended the turn. It was sent to the session’s channel.'),
  })
  .meta({ id: 'Turn', description: 'One turn of an agent: a message, and everything until the reply to it.' });

const callResource = z
  .strictObject({
    callId: z.string(),
    name: z.string(),
    state: z
      .enum(['running', 'performing', 'answered', 'interrupted'])
      .describe(
        'performing: the runtime performs it, and has not sent its result. interrupted: the supervisor stopped while the tool ran. It does not run again under this id.',
      ),
    arguments: anyJson.describe('As the plugins let them pass, of a call that the runtime performs. Otherwise null.'),
    result: toolResultResource.nullable(),
    startedAt: timestamp,
    endedAt: timestamp.nullable(),
  })
  .meta({ id: 'TurnCall', description: 'A call of a tool in a turn.' });

const outputResource = z
  .strictObject({
    ...verdict,
    id: z.string(),
    state: z.enum(['open', 'passed', 'vetoed']),
    show: z.string().describe('The text that may be shown now, after what was shown before.'),
    attachments: z.array(attachment),
    judgement: judged,
  })
  .meta({ id: 'TurnOutput', description: 'What may be shown of a text of the agent.' });

const turnDetail = z
  .strictObject({
    turn: turnResource,
    calls: z.array(callResource),
    outputs: z.array(
      z.strictObject({
        id: z.string(),
        state: z.enum(['open', 'passed', 'vetoed']),
        pieces: z.int().describe('Number of pieces that came; the next one has this number. 0: it came whole.'),
        text: z.string().nullable().describe('As the plugins let it pass. Null: it is not judged, or was vetoed.'),
        judgement: judged,
      }),
    ),
  })
  .meta({ id: 'TurnDetail', description: 'A turn with everything that it did so far.' });

const waitingResource = z
  .strictObject({ sessionId: z.string(), agentId: z.string(), message: messageResource })
  .meta({ id: 'WaitingMessage', description: 'A message that waits for an answer.' });

const promptResource = z
  .strictObject({
    ...verdict,
    turnId: z.string(),
    systemPrompt: z.string(),
    model: z.string(),
    messages: z
      .array(messageResource)
      .describe('Oldest first, without notices and what was vetoed. A summary is a message with the role system.'),
    isTruncated: z.boolean().describe('Whether older messages are left out without a summary.'),
    notice: z.string().nullable().describe('Why a plugin’s summary is not used.'),
    tools: z.array(toolResource),
    outbound: z
      .enum(outboundModes)
      .describe(
        'How plugins judge the texts of the agent now. none: show them as they come. pieces: send pieces, such as sentences, and show each when it is answered. whole: show nothing before the end.',
      ),
  })
  .meta({ id: 'Prompt', description: 'What to ask a model. All of it is empty where the action is `cancel`.' });

const handedCall = z
  .strictObject({
    callId: z.string(),
    name: z.string(),
    arguments: anyJson.describe('As the plugins let them pass. Perform the call with these.'),
    isRepeated: z.boolean().describe('Whether another attempt got the call before. It may have performed it.'),
  })
  .meta({ id: 'OwnCall', description: 'A judged call of a tool of the runtime. Perform it, then send its result.' });

const openedTurn = turnResource
  .extend({ prompt: promptResource.optional().describe('If you asked for it, and the turn is open.') })
  .meta({ id: 'OpenedTurn', description: 'A turn, and the prompt if it was asked for.' });

const newCall = jsonBody({
  name: storedText(TOOL_NAME_MAX_CHARS).min(1).describe('`<slug>__<tool>`, or as the runtime named it.'),
  arguments: json.default({}),
  own: z
    .boolean()
    .default(false)
    .describe('Whether the runtime performs the tool, although the session does not list it.'),
  attempt: storedId
    .optional()
    .describe('Of a tool of the runtime: a random id, the same when the request is repeated. See `isRepeated`.'),
  keepRunning: z
    .boolean()
    .default(false)
    .describe('Whether the tool goes on when this request is closed. Otherwise closing it aborts the call.'),
});

const ownResult = jsonBody({
  content: toolResult.shape.content,
  isError: z
    .boolean()
    .default(false)
    .describe('Whether the tool failed. The model reads why and can correct its call.'),
});

const outputBody = jsonBody({
  id: stepId
    .optional()
    .describe('An id of the runtime’s own, which the message gets. Default: made of the turn’s id and the text.'),
  text: storedText(TEXT_MAX_CHARS),
  piece: z
    .int()
    .min(0)
    .max(PIECES_MAX)
    .optional()
    .describe('Number of the piece, from 0. Left out: the text is whole.'),
  done: z.boolean().default(false).describe('Whether this is the last piece. A whole text needs none.'),
  attachments: attachments.default([]).describe('Of a whole text, or with the last piece.'),
  target: z.string().max(TARGET_MAX_CHARS).default('user').describe('The recipient, as plugins see it.'),
  isShown: z
    .boolean()
    .default(false)
    .describe(
      'Of a whole text: you have shown it already, because the prompt said `outbound: none`. A plugin that was installed meanwhile can then cancel it, but not change it.',
    ),
});

const endBody = jsonBody({
  text: storedText(TEXT_MAX_CHARS)
    .min(1, 'must not be empty: leave it out to end the turn without a text')
    .optional()
    .describe('The agent’s last text, if it was not sent as an output.'),
  outputId: stepId.optional().describe('The id of that text. Default: made of the turn’s id and the text.'),
  attachments: attachments.default([]),
  target: z.string().max(TARGET_MAX_CHARS).default('user').describe('The recipient, as plugins see it.'),
});

const DEFAULT_PROMPT = { compactAfter: undefined, keep: KEEP_DEFAULT };

const step = { headers: runtimeHeaders, params: turnParams } as const;
const STEP_PROBLEMS = ['turn_held', 'turn_ended', 'cancelled'] as const;

const shapes = {
  open: {
    summary: 'Opens a turn: judges a message and adds it to the transcript',
    details:
      'Runs the hook `inboundMessage`. A message that a channel brought was judged when it came. The same id answers the same turn and judges nothing twice. Another runtime gets 409 `turn_held` until the lease has expired. With `prompt`, the answer has what to ask the model, which saves a request.',
    problems: ['turn_held', 'id_reused', 'quota_exceeded'],
    headers: runtimeHeaders,
    params: sessionParams,
    body: newTurn,
    response: { 201: openedTurn },
  },
  list: {
    summary: 'The turns of a session',
    params: sessionParams,
    querystring: pageQuery.extend({
      state: z.enum(turnStates).optional(),
      order: z.enum(turnOrders).default('oldest').describe('Which come first.'),
    }),
    response: { 200: page(turnResource) },
  },
  unanswered: {
    summary: 'The messages that wait for an answer, oldest first',
    details:
      'Messages of channels, reminders, mail and `POST …/messages` without a turn, or with one that is not over and that no other runtime holds. Open a turn with the id of each. Of the newest 10,000 messages of users.',
    headers: runtimeHeaders,
    querystring: pageQuery.extend({
      agentId: storedId.optional().describe('Only of the sessions of this agent.'),
      sessionId: storedId.optional().describe('Only of this session.'),
    }),
    response: { 200: page(waitingResource) },
  },
  one: {
    summary: 'One turn, with its calls and outputs',
    details: 'What a runtime needs to go on with a turn that another one left.',
    params: turnParams,
    response: { 200: turnDetail },
  },
  prompt: {
    summary: 'What to ask the model: system prompt, messages and tools',
    details:
      'Runs the hook `systemPrompt`, so ask before every call of the model. With `compactAfter`, a plugin summarizes older messages; the summary replaces them here, and the transcript keeps them.',
    problems: STEP_PROBLEMS,
    ...step,
    querystring: z.object(promptFields),
    response: { 200: promptResource },
  },
  promptWith: {
    summary: 'The same with a system prompt or model of this call',
    problems: STEP_PROBLEMS,
    ...step,
    body: promptBody,
    response: { 200: promptResource },
  },
  call: {
    summary: 'Calls a tool once',
    details:
      'Runs the hooks `toolCall` and `toolResult`. The same id answers the same result for 24 hours, also while the tool still runs and after a crash of runtime or supervisor. The result is added to the transcript. What a model can correct is a result with `isError`: arguments that do not fit, an unknown tool, a tool that failed, a call that a plugin cancelled. 202: the runtime performs this tool. Perform it with the arguments of the answer, and send the result.',
    problems: [...STEP_PROBLEMS, 'id_reused', 'quota_exceeded'],
    headers: runtimeHeaders,
    params: callParams,
    body: newCall,
    response: { 200: toolResultResource, 202: handedCall },
  },
  ownResult: {
    summary: 'Sends the result of a call that the runtime performed, and answers what the model may read',
    details:
      'Runs the hook `toolResult` and adds the result to the transcript, once. The same result answers the same.',
    problems: [...STEP_PROBLEMS, 'id_reused', 'quota_exceeded'],
    headers: runtimeHeaders,
    params: callParams,
    body: ownResult,
    response: { 200: toolResultResource },
  },
  oneCall: {
    summary: 'Whether a tool was called, and its result',
    params: callParams,
    response: { 200: callResource },
  },
  abortCall: {
    summary: 'Aborts a call of a tool',
    details: 'Aborts the handler’s `signal`. Answers the call as it ended. A call that has ended stays as it is.',
    params: callParams,
    response: { 200: callResource },
  },
  output: {
    summary: 'Sends a text of the agent, whole or in pieces, and answers what may be shown',
    details:
      'Runs the hook `outboundMessage` and adds the text to the transcript. While no plugin has this hook, each piece may be shown at once. While one has, all of it may be shown when the last piece was judged, or each piece when it was judged if all of these plugins stream.',
    problems: [...STEP_PROBLEMS, 'id_reused', 'quota_exceeded'],
    ...step,
    body: outputBody,
    response: { 200: outputResource },
  },
  end: {
    summary: 'Ends a turn, and sends its last output to the session’s channel',
    details:
      'A text that a plugin cancels leaves the turn open: end it with another one, or without. Repeating it answers the same and sends nothing twice.',
    problems: [...STEP_PROBLEMS, 'id_reused', 'quota_exceeded'],
    ...step,
    body: endBody,
    response: { 200: turnResource },
  },
} satisfies Record<string, FastifySchema>;

/** The holder of leases: the name that the runtime gives itself, or its token. */
function readRuntime(request: FastifyRequest): string {
  const given = request.headers['bulkhead-runtime'];
  if (typeof given === 'string' && given !== '') return given;
  const { tokenId } = requireCaller(request);
  return tokenId === null ? 'a runtime without a name' : `token ${tokenId}`;
}

export function turnRoutes(services: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Turns');

    app.post('/sessions/:sessionId/turns', { schema: shapes.open }, async (request, reply) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const { prompt: asked, ...body } = request.body;
      const fields = asked === true ? DEFAULT_PROMPT : asked;
      const prompt = fields === false ? null : { ...fields, compactAfter: fields.compactAfter ?? null };
      const turn = await openTurn(services, session, { ...body, prompt }, readRuntime(request));
      return answerCreated(request, reply, encodeURIComponent(turn.id)).send(turn);
    });

    app.get('/sessions/unanswered', { schema: shapes.unanswered }, (request) => {
      const { agentId = null, sessionId = null, ...query } = request.query;
      const accountId = requireCaller(request).id;
      return pageInbox(services.pool, { accountId, agentId, sessionId, runtime: readRuntime(request), ...query });
    });

    app.get('/sessions/:sessionId/turns', { schema: shapes.list }, async (request) => {
      const { id: sessionId } = await requireSession(services, requireCaller(request), request.params);
      const { state = null, ...query } = request.query;
      const { items, nextCursor } = await pageTurns(services.pool, { sessionId, state, ...query });
      return { items: items.map(describeTurn), nextCursor };
    });

    app.get('/sessions/:sessionId/turns/:turnId', { schema: shapes.one }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const key = { sessionId: session.id, turnId: request.params.turnId };
      const turn = await requireTurn(services, key);
      const [calls, outputs] = await Promise.all([listCalls(services.pool, key), listOutputs(services.pool, key)]);
      return {
        turn: describeTurn(turn),
        calls: calls.map((call) => describeCall(services, key, call)),
        outputs: outputs.map(({ id, state, pieces, text, judgement }) => ({ id, state, pieces, text, judgement })),
      };
    });

    app.get(
      '/sessions/:sessionId/turns/:turnId/prompt',
      { config: { runsPlugins: true }, schema: shapes.prompt },
      async (request) => {
        const session = await requireSession(services, requireCaller(request), request.params);
        const key = { sessionId: session.id, turnId: request.params.turnId };
        const { compactAfter = null, keep } = request.query;
        return readPrompt(services, session, key, readRuntime(request), { compactAfter, keep });
      },
    );

    app.post('/sessions/:sessionId/turns/:turnId/prompt', { schema: shapes.promptWith }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const key = { sessionId: session.id, turnId: request.params.turnId };
      const { compactAfter = null, ...asked } = request.body;
      return readPrompt(services, session, key, readRuntime(request), { compactAfter, ...asked });
    });

    app.post(
      '/sessions/:sessionId/turns/:turnId/calls/:callId',
      { bodyLimit: CALL_BODY_MAX_BYTES, config: { anyPropertyNames: true }, schema: shapes.call },
      async (request, reply) => {
        const session = await requireSession(services, requireCaller(request), request.params);
        const { turnId, callId } = request.params;
        const { name, arguments: args, own: isOwn, attempt = randomUUIDv7(), keepRunning } = request.body;
        const signal = keepRunning ? {} : { signal: abortWhenClosed(reply) };
        const call = { callId, name, arguments: args, isOwn, attempt, runtime: readRuntime(request), ...signal };
        const outcome = await callToolInTurn(services, session, { sessionId: session.id, turnId }, call);
        if ('result' in outcome) return outcome.result;
        return reply.code(202).send({ callId, name, ...outcome });
      },
    );

    app.post(
      '/sessions/:sessionId/turns/:turnId/calls/:callId/result',
      { bodyLimit: CALL_BODY_MAX_BYTES, config: { anyPropertyNames: true }, schema: shapes.ownResult },
      async (request) => {
        const session = await requireSession(services, requireCaller(request), request.params);
        const { turnId, callId } = request.params;
        const answer = { callId, result: request.body };
        return answerOwnCall(services, session, { sessionId: session.id, turnId }, readRuntime(request), answer);
      },
    );

    app.get('/sessions/:sessionId/turns/:turnId/calls/:callId', { schema: shapes.oneCall }, async (request) => {
      const { id: sessionId } = await requireSession(services, requireCaller(request), request.params);
      const { turnId, callId } = request.params;
      return describeCall(services, { sessionId, turnId }, await requireCall(services, { sessionId, turnId, callId }));
    });

    app.delete('/sessions/:sessionId/turns/:turnId/calls/:callId', { schema: shapes.abortCall }, async (request) => {
      const { id: sessionId } = await requireSession(services, requireCaller(request), request.params);
      const { turnId, callId } = request.params;
      await services.runningCalls.abort({ sessionId, turnId, callId }, 'the runtime aborted it');
      return describeCall(services, { sessionId, turnId }, await requireCall(services, { sessionId, turnId, callId }));
    });

    app.post('/sessions/:sessionId/turns/:turnId/output', { schema: shapes.output }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const key = { sessionId: session.id, turnId: request.params.turnId };
      const runtime = readRuntime(request);
      const { piece, done, isShown, ...output } = request.body;
      return piece === undefined
        ? sendWholeOutput(services, session, key, runtime, { ...output, isShown })
        : sendPiece(services, session, key, runtime, { piece, done, ...output });
    });

    app.post('/sessions/:sessionId/turns/:turnId/end', { schema: shapes.end }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const key = { sessionId: session.id, turnId: request.params.turnId };
      return endTurnWith(services, session, key, readRuntime(request), request.body);
    });
  };
}
