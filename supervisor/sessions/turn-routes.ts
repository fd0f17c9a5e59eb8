/** `/sessions/{id}/turns`: one turn of an agent, step by step. */

import { isUtf8 } from 'node:buffer';
import { randomUUIDv7 } from 'node:crypto';
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { mapPage } from '../../db/postgres/cursors.ts';
import { pageOrders } from '../../db/postgres/rows.ts';
import { pageBegunTurns, pageInbox } from '../../db/sessions/inbox.ts';
import { pageSteps } from '../../db/sessions/turn-steps.ts';
import { pageTurns, turnStates } from '../../db/sessions/turns.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { answerCreated } from '../../service/http/created.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { newId, page, pageQuery, storedId } from '../../service/http/schemas.ts';
import { abortWhenClosed } from './closed-requests.ts';
import { CALL_BODY_MAX_BYTES, requireSession, type SessionServices, sessionParams } from './session-services.ts';
import { abortCall, answerOwnCall, callToolInTurn, describeCall, requireCall } from './tool-journal.ts';
import type { TurnStep } from './turn-answers.ts';
import { holdDuring } from './turn-lease.ts';
import { sendPiece, sendWholeOutput } from './turn-outputs.ts';
import { readPrompt } from './turn-prompt.ts';
import {
  callResource,
  endBody,
  handedCall,
  KEEP_DEFAULT,
  newCall,
  newTurn,
  openedTurn,
  outputBody,
  outputResource,
  ownResult,
  promptBody,
  promptQuery,
  promptResource,
  toolResultResource,
  turnDetail,
  turnResource,
  waitingResource,
} from './turn-schemas.ts';
import { describeTurn, endTurnWith, openTurn, requireTurn } from './turns.ts';

const turnParams = sessionParams.extend({ turnId: z.string() });
const callParams = turnParams.extend({ callId: storedId });
const newCallParams = turnParams.extend({ callId: newId });
const runtimeHeaders = z.looseObject({
  'bulkhead-runtime': storedId
    .optional()
    .describe(
      'The name of the runtime that requests the step. Default: the service that exchanged the token, the client for which an identity provider issued the token, or else the token. The lease of a turn belongs to this name: name each process if several share one. A name beyond ASCII is sent as UTF-8, of which each byte counts as a character.',
    ),
});

const step = { headers: runtimeHeaders, params: turnParams } as const;
const STEP_PROBLEMS = ['turn_held', 'turn_ended', 'cancelled'] as const;

const shapes = {
  open: {
    summary: 'Opens a turn: judges a message and adds it to the transcript',
    details:
      'Runs the hook `inboundMessage`. A message of a channel, a reminder or another agent was judged when it arrived. If a required plugin was installed, changed or made required since then, the required plugins judge it again. A repeated request with the same id returns the same turn, and judges nothing twice. It may omit `text`. A `systemPrompt` or `model` in it replaces the earlier one of an open turn, and its `leaseSeconds` applies from then on. Another runtime gets 409 `turn_held` until the lease has expired. With `prompt`, the response includes the input for the model, which saves a request.',
    problems: ['turn_held', 'turn_ended', 'id_reused', 'quota_exceeded'],
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
      order: z.enum(pageOrders).default('oldest').describe('The turns that come first.'),
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
  begun: {
    summary: 'The turns that are not over, of all sessions, in the order of their messages',
    details:
      'Lists the turns of messages that arrived without one: of channels, reminders, mail and `POST …/messages`. They are in the state judging or open, and another runtime may hold them. A turn that a runtime opened with a text of its own is not listed, because that runtime continues it. Only the newest 50,000 messages without an answer are searched.',
    querystring: pageQuery.extend({
      agentId: storedId.optional().describe('Lists only the sessions of this agent.'),
    }),
    response: { 200: page(turnResource) },
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
    querystring: promptQuery,
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
      'Runs the hooks `toolCall` and `toolResult`. A repeated request with the same id returns the same result for 24 hours, also while the tool still runs and after a crash of the runtime or the supervisor. A connection that is lost counts as a request that the runtime closed, which aborts the call: send `keepRunning` to get the result with the next request. A call whose request was closed before the tool ran is made when it is sent again. The result is added to the transcript. An error that a model can correct is a result with `isError`: invalid arguments, an unknown tool, a tool that failed, a call that a plugin cancelled. 202: the runtime performs this tool. Perform it with the arguments of the response, and send the result.',
    problems: [...STEP_PROBLEMS, 'id_reused', 'quota_exceeded'],
    headers: runtimeHeaders,
    params: newCallParams,
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
      'Aborts the handler’s `signal`, and returns the call after it ended. A call that the runtime performs ends with an error as its result: stop the work yourself, because its result is then refused with 409. A call that had ended before stays unchanged.',
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
      'Calls that Bulkhead still makes are aborted first. Outputs whose last piece did not come are completed, so that they precede the text. If a plugin cancels the text, the turn stays open: end it with another text, or without one. A repeated request returns the same response and sends nothing twice. With `reply: false`, nothing is sent.',
    problems: [...STEP_PROBLEMS, 'id_reused', 'quota_exceeded'],
    ...step,
    body: endBody,
    response: { 200: turnResource },
  },
} satisfies Record<string, FastifySchema>;

/** Node reads each byte of a header as a character. Clients send UTF-8, or ISO-8859-1 as the `fetch` of JavaScript does. */
function decodeHeader(text: string): string {
  const bytes = Buffer.from(text, 'latin1');
  return isUtf8(bytes) ? bytes.toString() : text;
}

/**
 * The holder of leases: the name that the runtime gives itself, or the origin of its token. A service and a client of an issuer renew
 * their tokens within a turn, so their name does not depend on a single one.
 */
function readRuntime(request: FastifyRequest): string {
  const given = request.headers['bulkhead-runtime'];
  if (typeof given === 'string' && given !== '') return decodeHeader(given);
  const { tokenId, actor, client } = requireCaller(request);
  if (actor !== null) return `service ${actor}`;
  if (client !== null) return `client ${client}`;
  return tokenId === null ? 'a runtime without a name' : `token ${tokenId}`;
}

export function turnRoutes(services: SessionServices): FastifyPluginAsyncZod {
  const readStep = async (request: FastifyRequest, params: z.infer<typeof turnParams>): Promise<TurnStep> => {
    const session = await requireSession(services, requireCaller(request), params);
    return { session, key: { sessionId: session.id, turnId: params.turnId }, runtime: readRuntime(request) };
  };
  const takeStep = async <T>(
    request: FastifyRequest,
    params: z.infer<typeof turnParams>,
    take: (step: TurnStep) => Promise<T>,
  ): Promise<T> => {
    const turn = await readStep(request, params);
    return holdDuring(services.pool, turn, () => take(turn));
  };
  return async (app) => {
    groupRoutes(app, 'Turns');

    app.post('/sessions/:sessionId/turns', { schema: shapes.open }, async (request, reply) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const { prompt: asked, ...body } = request.body;
      const prompt = asked === true ? { keep: KEEP_DEFAULT } : asked || null;
      const turn = await openTurn(services, session, { ...body, prompt }, readRuntime(request));
      return answerCreated(request, reply, encodeURIComponent(turn.id)).send(turn);
    });

    app.get('/sessions/unanswered', { schema: shapes.unanswered }, (request) => {
      const { agentId = null, sessionId = null, ...query } = request.query;
      const accountId = requireCaller(request).id;
      return pageInbox(services.pool, { accountId, agentId, sessionId, runtime: readRuntime(request), ...query });
    });

    app.get('/sessions/turns', { schema: shapes.begun }, async (request) => {
      const { agentId = null, ...query } = request.query;
      const accountId = requireCaller(request).id;
      return mapPage(await pageBegunTurns(services.pool, { accountId, agentId, ...query }), describeTurn);
    });

    app.get('/sessions/:sessionId/turns', { schema: shapes.list }, async (request) => {
      const { id: sessionId } = await requireSession(services, requireCaller(request), request.params);
      const { state = null, ...query } = request.query;
      return mapPage(await pageTurns(services.pool, { sessionId, state, ...query }), describeTurn);
    });

    app.get('/sessions/:sessionId/turns/:turnId', { schema: shapes.one }, async (request) => {
      const { key } = await readStep(request, request.params);
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
      (request) => takeStep(request, request.params, (turn) => readPrompt(services, turn, request.query)),
    );

    app.post('/sessions/:sessionId/turns/:turnId/prompt', { schema: shapes.promptWith }, (request) =>
      takeStep(request, request.params, (turn) => readPrompt(services, turn, request.body)),
    );

    app.post(
      '/sessions/:sessionId/turns/:turnId/calls/:callId',
      { bodyLimit: CALL_BODY_MAX_BYTES, config: { anyPropertyNames: true }, schema: shapes.call },
      async (request, reply) => {
        const { callId } = request.params;
        const { name, arguments: args, own: isOwn, attempt = randomUUIDv7(), keepRunning } = request.body;
        const signal = keepRunning ? undefined : abortWhenClosed(reply);
        const call = { callId, name, arguments: args, isOwn, attempt, signal };
        const outcome = await takeStep(request, request.params, ({ session, key, runtime }) =>
          callToolInTurn(services, session, key, { ...call, runtime }),
        );
        if ('result' in outcome) return outcome.result;
        return reply.code(202).send({ callId, name, ...outcome });
      },
    );

    app.post(
      '/sessions/:sessionId/turns/:turnId/calls/:callId/result',
      { bodyLimit: CALL_BODY_MAX_BYTES, config: { anyPropertyNames: true }, schema: shapes.ownResult },
      (request) => {
        const answer = { callId: request.params.callId, result: request.body };
        return takeStep(request, request.params, (turn) => answerOwnCall(services, turn, answer));
      },
    );

    app.get('/sessions/:sessionId/turns/:turnId/calls/:callId', { schema: shapes.oneCall }, async (request) => {
      const { key } = await readStep(request, request.params);
      return describeCall(services, key, await requireCall(services, { ...key, callId: request.params.callId }));
    });

    app.delete('/sessions/:sessionId/turns/:turnId/calls/:callId', { schema: shapes.abortCall }, async (request) => {
      const { key } = await readStep(request, request.params);
      const callKey = { ...key, callId: request.params.callId };
      return describeCall(services, key, await abortCall(services, callKey));
    });

    app.post('/sessions/:sessionId/turns/:turnId/output', { schema: shapes.output }, (request) => {
      const { piece, done, isShown, ...output } = request.body;
      return takeStep(request, request.params, (turn) =>
        piece === undefined
          ? sendWholeOutput(services, turn, { ...output, isShown })
          : sendPiece(services, turn, { piece, done, ...output }),
      );
    });

    app.post('/sessions/:sessionId/turns/:turnId/end', { schema: shapes.end }, (request) =>
      takeStep(request, request.params, (turn) => endTurnWith(services, turn, request.body)),
    );
  };
}
