/** `/sessions/{id}/turns`: one turn of an agent, step by step. */

import { randomUUIDv7 } from 'node:crypto';
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { pageInbox } from '../../db/sessions/inbox.ts';
import { outboundModes } from '../../db/sessions/turn-outputs.ts';
import { pageSteps } from '../../db/sessions/turn-steps.ts';
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
    .describe(
      'The name of the runtime that requests the step. Default: the token. The lease of a turn belongs to this name.',
    ),
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
  systemPrompt: storedText(TEXT_MAX_CHARS).optional().describe('Default: the one with which the turn was opened.'),
  model: storedText(MODEL_MAX_CHARS).optional().describe('Default: the one with which the turn was opened.'),
});
const newTurn = jsonBody({
  id: stepId.describe(
    'The runtime’s own id of the turn and of its message. A repeated request with the same id returns the same turn.',
  ),
  from: z.string().min(1).max(FROM_MAX_CHARS).default('user').describe('The name of the sender that plugins see.'),
  text: storedText(TEXT_MAX_CHARS)
    .optional()
    .describe('Default: the text of the message with this id in the transcript, such as a message of a channel.'),
  attachments: attachments.default([]),
  trigger: trigger.describe('The cause of the turn. Plugins see it in every hook of the turn.'),
  systemPrompt: storedText(TEXT_MAX_CHARS).default('').describe('Default: the instructions of the account’s agent.'),
  model: storedText(MODEL_MAX_CHARS).default('').describe('The name of the model that plugins see.'),
  leaseSeconds: z
    .int()
    .min(1)
    .max(LEASE_MAX_S)
    .default(LEASE_DEFAULT_S)
    .describe('Duration of the lease: after each step, the turn belongs to the runtime for this time.'),
  prompt: z
    .union([z.boolean(), z.object(promptFields)])
    .default(false)
    .describe('Whether the response includes the prompt of the opened turn: true, or the fields of a prompt request.'),
});

const verdict = {
  action: z.enum(['continue', 'cancel']).describe('cancel: the step did not happen. Do not continue with it.'),
  reason: z.string().nullable(),
  cancelledBy: z
    .string()
    .nullable()
    .describe('The slug of the plugin that cancelled the step, or that is required and did not run.'),
  isFinal: z.boolean().describe('False: a required plugin did not run, so the same step may pass later.'),
};
const judged = judgement.nullable().describe('The judgement of the plugins. Null: the text is not judged.');

const turnResource = z
  .strictObject({
    ...verdict,
    id: z.string(),
    sessionId: z.string(),
    state: z
      .enum(turnStates)
      .describe(
        'judging: open the turn again with the same id. open: request its steps. vetoed: a plugin cancelled its message. ended: it is over. cleared: the session was cleared.',
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
      .describe('The message after the plugins’ changes. Null: a plugin cancelled it, or it was removed.'),
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
        'performing: the runtime performs the call and has not sent the result. interrupted: the supervisor stopped while the tool ran, and the call does not run again under this id.',
      ),
    arguments: anyJson.describe(
      'The arguments after the plugins’ changes, if the runtime performs the call. Otherwise null.',
    ),
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
    show: z.string().describe('The text that may be shown now, after the text that was shown before.'),
    attachments: z.array(attachment),
    judgement: judged,
  })
  .meta({ id: 'TurnOutput', description: 'An output of the agent, with the text that may be shown.' });

const turnDetail = z
  .strictObject({
    turn: turnResource,
    calls: z.array(callResource),
    outputs: z.array(
      z.strictObject({
        id: z.string(),
        state: z.enum(['open', 'passed', 'vetoed']),
        pieces: z
          .int()
          .describe('Number of pieces received, and the number of the next piece. 0: the text was sent whole.'),
        text: z
          .string()
          .nullable()
          .describe('The text after the plugins’ changes. Null: it is not judged yet, or was vetoed.'),
        judgement: judged,
      }),
    ),
    nextCursor: z.string().nullable().describe('The cursor of the next calls and outputs. Null: there are no more.'),
  })
  .meta({ id: 'TurnDetail', description: 'A turn with its calls and outputs.' });

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
      .describe('Oldest first, without notices and vetoed messages. A summary is a message with the role system.'),
    isTruncated: z.boolean().describe('Whether older messages are left out without a summary.'),
    notice: z.string().nullable().describe('Reason why a plugin’s summary is not used.'),
    tools: z.array(toolResource),
    outbound: z
      .enum(outboundModes)
      .describe(
        'The way in which plugins judge the texts of the agent now. none: show each text as the model writes it. pieces: send pieces, such as sentences, and show each one when its response arrives. whole: show nothing before the end of the text.',
      ),
  })
  .meta({
    id: 'Prompt',
    description: 'The input of a model call. If the action is `cancel`, all fields of it are empty.',
  });

const handedCall = z
  .strictObject({
    callId: z.string(),
    name: z.string(),
    arguments: anyJson.describe('The arguments after the plugins’ changes. Perform the call with these.'),
    isRepeated: z.boolean().describe('Whether an earlier attempt received this call, and so may have performed it.'),
  })
  .meta({ id: 'OwnCall', description: 'A judged call of a tool of the runtime. Perform it, then send its result.' });

const openedTurn = turnResource
  .extend({ prompt: promptResource.optional().describe('Present if you requested it and the turn is open.') })
  .meta({ id: 'OpenedTurn', description: 'A turn, and the prompt if it was requested.' });

const newCall = jsonBody({
  name: storedText(TOOL_NAME_MAX_CHARS)
    .min(1)
    .describe('`<slug>__<tool>`, or the name that the runtime gave its tool.'),
  arguments: json.default({}),
  own: z
    .boolean()
    .default(false)
    .describe('Whether the runtime performs the tool, although the session does not list it.'),
  attempt: storedId
    .optional()
    .describe('For a tool of the runtime: a random id, which a repeated request sends again. See `isRepeated`.'),
  keepRunning: z
    .boolean()
    .default(false)
    .describe('Whether the tool continues when this request is closed. Otherwise closing the request aborts the call.'),
});

const ownResult = jsonBody({
  content: toolResult.shape.content,
  isError: z
    .boolean()
    .default(false)
    .describe('Whether the tool failed. The model reads the reason and can correct its call.'),
});

const outputBody = jsonBody({
  id: stepId
    .optional()
    .describe('The runtime’s own id of the output and of its message. Default: made of the turn’s id and the text.'),
  text: storedText(TEXT_MAX_CHARS),
  piece: z
    .int()
    .min(0)
    .max(PIECES_MAX)
    .optional()
    .describe('Number of the piece, from 0. Omit it to send a whole text.'),
  done: z.boolean().default(false).describe('Whether this is the last piece. Omit it for a whole text.'),
  attachments: attachments
    .default([])
    .describe('The files of the message. Send them with a whole text or with the last piece.'),
  target: z.string().max(TARGET_MAX_CHARS).default('user').describe('The name of the recipient that plugins see.'),
  isShown: z
    .boolean()
    .default(false)
    .describe(
      'Whether you have shown this whole text already, because the prompt said `outbound: none`. A plugin that was installed meanwhile can then cancel the text, but not change it.',
    ),
});

const endBody = jsonBody({
  text: storedText(TEXT_MAX_CHARS)
    .min(1, 'must not be empty: leave it out to end the turn without a text')
    .optional()
    .describe('The agent’s last text, if it was not sent as an output.'),
  outputId: stepId.optional().describe('The id of that text. Default: made of the turn’s id and the text.'),
  attachments: attachments.default([]),
  target: z.string().max(TARGET_MAX_CHARS).default('user').describe('The name of the recipient that plugins see.'),
});

const DEFAULT_PROMPT = { compactAfter: undefined, keep: KEEP_DEFAULT };

const step = { headers: runtimeHeaders, params: turnParams } as const;
const STEP_PROBLEMS = ['turn_held', 'turn_ended', 'cancelled'] as const;

const shapes = {
  open: {
    summary: 'Opens a turn: judges a message and adds it to the transcript',
    details:
      'Runs the hook `inboundMessage`. A message of a channel was judged when it arrived, and is not judged again. A repeated request with the same id returns the same turn, and judges nothing twice. Another runtime gets 409 `turn_held` until the lease has expired. With `prompt`, the response includes the input for the model, which saves a request.',
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
      order: z.enum(turnOrders).default('oldest').describe('The turns that come first.'),
    }),
    response: { 200: page(turnResource) },
  },
  unanswered: {
    summary: 'The messages that wait for an answer, oldest first',
    details:
      'Lists the messages of channels, reminders, mail and `POST …/messages` that have no turn, or a turn that is not over and that no other runtime holds. Open a turn with the id of each. Only the newest 50,000 messages without an answer are searched.',
    headers: runtimeHeaders,
    querystring: pageQuery.extend({
      agentId: storedId.optional().describe('Lists only the sessions of this agent.'),
      sessionId: storedId.optional().describe('Lists only this session.'),
    }),
    response: { 200: page(waitingResource) },
  },
  one: {
    summary: 'One turn, with its calls and outputs',
    details:
      'With this, a runtime can continue a turn that another runtime left. Calls and outputs come oldest first. Where they are many or large, `nextCursor` is not null: request the next ones with it as `cursor`.',
    params: turnParams,
    querystring: pageQuery.pick({ cursor: true }),
    response: { 200: turnDetail },
  },
  prompt: {
    summary: 'The input for the model: system prompt, messages and tools',
    details:
      'Runs the hook `systemPrompt`, so request it before every call of the model. With `compactAfter`, a plugin summarizes older messages. The summary replaces them in the prompt; the transcript keeps them.',
    problems: STEP_PROBLEMS,
    ...step,
    querystring: z.object(promptFields),
    response: { 200: promptResource },
  },
  promptWith: {
    summary: 'The input for the model, with another system prompt or model for this call',
    problems: STEP_PROBLEMS,
    ...step,
    body: promptBody,
    response: { 200: promptResource },
  },
  call: {
    summary: 'Calls a tool once',
    details:
      'Runs the hooks `toolCall` and `toolResult`. A repeated request with the same id returns the same result for 24 hours, also while the tool still runs and after a crash of the runtime or the supervisor. The result is added to the transcript. An error that a model can correct is a result with `isError`: invalid arguments, an unknown tool, a tool that failed, a call that a plugin cancelled. 202: the runtime performs this tool. Perform it with the arguments of the response, and send the result.',
    problems: [...STEP_PROBLEMS, 'id_reused', 'quota_exceeded'],
    headers: runtimeHeaders,
    params: callParams,
    body: newCall,
    response: { 200: toolResultResource, 202: handedCall },
  },
  ownResult: {
    summary: 'Sends the result of a call that the runtime performed, and returns what the model may read',
    details:
      'Runs the hook `toolResult` and adds the result to the transcript, once. A repeated request with the same result returns the same response.',
    problems: [...STEP_PROBLEMS, 'id_reused', 'quota_exceeded'],
    headers: runtimeHeaders,
    params: callParams,
    body: ownResult,
    response: { 200: toolResultResource },
  },
  oneCall: {
    summary: 'One call of a tool: its state and its result',
    params: callParams,
    response: { 200: callResource },
  },
  abortCall: {
    summary: 'Aborts a call of a tool',
    details:
      'Aborts the handler’s `signal`, and returns the call after it ended. A call that had ended before stays unchanged.',
    params: callParams,
    response: { 200: callResource },
  },
  output: {
    summary: 'Sends a text of the agent, whole or in pieces, and returns what may be shown',
    details:
      'Runs the hook `outboundMessage` and adds the text to the transcript. While no plugin has this hook, each piece may be shown at once. If all plugins with this hook stream, each piece may be shown once it is judged; otherwise the text may be shown once the last piece is judged.',
    problems: [...STEP_PROBLEMS, 'id_reused', 'quota_exceeded'],
    ...step,
    body: outputBody,
    response: { 200: outputResource },
  },
  end: {
    summary: 'Ends a turn, and sends its last output to the session’s channel',
    details:
      'If a plugin cancels the text, the turn stays open: end it with another text, or without one. A repeated request returns the same response and sends nothing twice.',
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
      const { calls, outputs, nextCursor } = await pageSteps(services.pool, key, request.query.cursor);
      return {
        turn: describeTurn(turn),
        calls: calls.map((call) => describeCall(services, key, call)),
        outputs: outputs.map(({ id, state, pieces, text, judgement }) => ({ id, state, pieces, text, judgement })),
        nextCursor,
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
