/** Makes each call of a turn once per id of its runtime, and keeps the answer for a day. */

import { randomUUIDv7 } from 'node:crypto';
import type { Session } from '../../db/sessions/sessions.ts';
import {
  answerCall,
  type CallAnswer,
  type CallKey,
  type CallRow,
  claimTurnCall,
  findCall,
  releaseCall,
} from '../../db/sessions/tool-calls.ts';
import { findTurn, type TurnKey } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import type { ToolResult } from '../../sdk/session/api-types.ts';
import type { JudgedResult } from './judged-call.ts';
import type { SessionServices } from './session-services.ts';
import { failedTool } from './tool-results.ts';
import { callTool, findTool, isRepeatable } from './tools.ts';
import { createReusedProblem, digestOf, explainRefusal } from './turn-answers.ts';

export interface ToolRequest {
  readonly callId: string;
  readonly name: string;
  readonly arguments: unknown;
  /** Aborts the call, with the reason that the plugin gets. */
  readonly signal?: AbortSignal;
}

/**
 * Calls a tool in a turn. What a model can correct is a result: arguments that do not fit, an unknown name, a tool that
 * failed.
 *
 * @throws Problem `turn_held`, `turn_ended`, `cancelled`, `id_reused`, `not_found`, `unavailable`
 */
export async function callToolInTurn(
  services: SessionServices,
  session: Session,
  turn: TurnKey,
  runtime: string,
  request: ToolRequest,
): Promise<ToolResult> {
  const key = { ...turn, callId: request.callId, digest: digestOf([request.name, request.arguments]) };
  const answer = await services.runningCalls.run(key, request.signal, async (signal) => {
    const isNew = await claimTurnCall(services.pool, key, { runtime, name: request.name });
    const known = isNew ? null : await readKnownCall(services, session, key, request.name);
    if (known) return known;
    return makeCall(services, session, key, { ...request, signal });
  });
  return 'result' in answer ? answer.result : failedTool(describeProblem(answer.problem));
}

const describeProblem = ({ detail, errors = [] }: Extract<CallAnswer, { problem: object }>['problem']): string =>
  [detail, ...errors.map(({ field, message }) => `${field ?? 'arguments'}: ${message}`)].join('\n');

async function makeCall(
  services: SessionServices,
  session: Session,
  key: CallKey,
  request: ToolRequest,
): Promise<CallAnswer> {
  await services.faultPoint('call.claimed');
  const made = await readAnswer(services, session, key, request).catch(async (error: unknown) => {
    // The handler did not run: the same id may be sent again.
    await releaseCall(services.pool, key);
    throw error;
  });
  await services.faultPoint('call.answered');
  if (made.isFinal)
    await saveAnswer(services, key, made.answer, toToolMessage(key, { ...request, ...made }, made.answer));
  else await releaseCall(services.pool, key);
  return made.answer;
}

/** An answer, and the arguments that the tool got. */
interface MadeCall extends Pick<JudgedResult, 'arguments' | 'isFinal'> {
  readonly answer: CallAnswer;
}

/** @throws an error if the handler did not run for a reason that may pass */
async function readAnswer(
  services: SessionServices,
  session: Session,
  { turnId }: CallKey,
  { callId, name, arguments: args, signal }: ToolRequest,
): Promise<MadeCall> {
  try {
    const tool = await findTool(services, session, name);
    const noticeId = `${digestOf([turnId, callId])}:vetoed`;
    const call = { callId, arguments: args, signal, noticeId, requestId: digestOf([session.id, turnId, callId]) };
    const { result, ...judged } = await callTool(services, session, tool, call);
    return { ...judged, answer: { result } };
  } catch (error) {
    if (!(error instanceof Problem) || error.code === 'unavailable') throw error;
    const problem = { code: error.code, detail: error.message, errors: error.errors };
    return { answer: { problem }, arguments: args, isFinal: true };
  }
}

/** A transcript without room must not lose the answer: the handler has run. */
async function saveAnswer(
  { pool }: SessionServices,
  key: CallKey,
  answer: CallAnswer,
  message: ReturnType<typeof toToolMessage>,
): Promise<void> {
  try {
    await answerCall(pool, key, answer, message);
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'quota_exceeded')) throw error;
    await answerCall(pool, key, answer, null);
  }
}

function toToolMessage({ turnId, callId }: CallKey, { name, arguments: args }: ToolRequest, answer: CallAnswer) {
  const result = 'result' in answer ? answer.result : failedTool(describeProblem(answer.problem));
  const text = result.content.map((part) => (part.type === 'text' ? part.text : JSON.stringify(part))).join('\n');
  return {
    id: randomUUIDv7(),
    text: text.slice(0, TEXT_MAX_CHARS).toWellFormed(),
    data: { turnId, callId, tool: name, arguments: args, isError: result.isError },
  };
}

const INTERRUPTED = failedTool(
  'The call was interrupted because its supervisor stopped. The tool may have run: check before you call it again.',
);

/** The answer of a call that was made before. Null: it was interrupted, and is to be made again. */
async function readKnownCall(
  services: SessionServices,
  session: Session,
  key: CallKey,
  name: string,
): Promise<CallAnswer | null> {
  const known = await findCall(services.pool, key);
  if (!known) throw await explainRefusal(services.pool, key);
  if (known.digest !== key.digest) throw createReusedProblem('a call of this turn');
  if (known.answer) return known.answer;
  const tool = await findTool(services, session, name).catch(() => null);
  if (tool && isRepeatable(tool)) return null;
  await answerCall(services.pool, key, { result: INTERRUPTED }, null);
  return { result: INTERRUPTED };
}

/** A call of a turn as its runtime sees it. */
export interface CallState {
  readonly callId: string;
  readonly name: string;
  readonly state: 'running' | 'answered' | 'interrupted';
  readonly result: ToolResult | null;
  readonly startedAt: string;
  readonly endedAt: string | null;
}

export function describeCall({ runningCalls }: SessionServices, turn: TurnKey, call: CallRow): CallState {
  const { callId, name, digest, answer, startedAt, endedAt } = call;
  const base = { callId, name, startedAt, endedAt };
  if (answer) {
    const result = 'result' in answer ? answer.result : failedTool(describeProblem(answer.problem));
    return { ...base, state: 'answered', result };
  }
  // No other supervisor makes calls of this account.
  return runningCalls.has({ ...turn, callId, digest })
    ? { ...base, state: 'running', result: null }
    : { ...base, state: 'interrupted', result: INTERRUPTED };
}

/** @throws Problem `not_found` */
export async function requireCall({ pool }: SessionServices, call: Omit<CallKey, 'digest'>): Promise<CallRow> {
  const found = await findCall(pool, call);
  if (found) return found;
  if (!(await findTurn(pool, call))) throw new Problem('not_found', 'This session has no turn with this id.');
  throw new Problem('not_found', 'No call of this turn had this id within 24 hours.');
}
