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
  handCall,
  releaseCall,
} from '../../db/sessions/tool-calls.ts';
import { findTurn, type Judgement, type TurnKey } from '../../db/sessions/turns.ts';
import { Problem, type ProblemCode } from '../../sdk/contract/errors.ts';
import { TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import type { Json, ToolResult } from '../../sdk/session/api-types.ts';
import { skipNotFound } from '../../service/http/errors.ts';
import { isClosedRequest } from './closed-requests.ts';
import {
  callBetweenHooks,
  type JudgedResult,
  judgeCall,
  judgeResult,
  type ToolCall,
  UNSTARTED,
} from './judged-call.ts';
import type { SessionServices } from './session-services.ts';
import { describeProblem, failedTool, formatContent } from './tool-results.ts';
import { callTool, type FoundTool, findTool, isRepeatable } from './tools.ts';
import {
  createReusedProblem,
  digestOf,
  digestOfJson,
  explainRefusal,
  isSameJson,
  requireHeldTurn,
  type TurnStep,
} from './turn-answers.ts';
import type { CallState } from './turn-schemas.ts';

interface ToolRequest extends Pick<ToolCall, 'callId' | 'name' | 'arguments' | 'signal'> {
  /** The runtime that takes the step. */
  readonly runtime: string;
  /** Whether the runtime performs the tool, although the session does not list it. */
  readonly isOwn: boolean;
  /** Tells one attempt of a runtime to perform the call from another. */
  readonly attempt: string;
}

/** A call that is made now. */
interface MadeRequest extends ToolRequest {
  /** Whether a crash interrupted it before. */
  readonly isRepeated: boolean;
}

/** A judged call that the runtime is to perform. */
interface HandedCall {
  readonly handed: NonNullable<CallRow['handed']>;
}
/** The answer to a runtime that calls a tool. `isRepeated`: another attempt got the call before, and may have performed it. */
export type CallOutcome =
  | { readonly result: ToolResult }
  | { readonly arguments: unknown; readonly isRepeated: boolean };

/**
 * Calls a tool in a turn, or hands a judged call to the runtime that performs it. Errors that a model can correct are results:
 * wrong arguments, an unknown name, a tool that failed.
 *
 * @throws Problem `turn_held`, `turn_ended`, `cancelled`, `id_reused`, `not_found`, `rate_limited`, `unavailable`
 */
export async function callToolInTurn(
  services: SessionServices,
  session: Session,
  turn: TurnKey,
  request: ToolRequest,
): Promise<CallOutcome> {
  const content = [request.name, request.arguments];
  const key = { ...turn, callId: request.callId, digest: digestOf(content) };
  const sortedDigest = digestOfJson(content);
  // Requests that are sent at once may have their keys in another order, too.
  const running = { ...key, digest: sortedDigest };
  const answer = await services.runningCalls.run(running, request.signal, async (signal) => {
    // The call may outlast its request. Null: the account is being given up, and waits for the request alone.
    const owned = services.router.ownership.begin(session.accountId);
    try {
      const isNew = await claimTurnCall(services.pool, key, { ...request, sortedDigest });
      const row = isNew ? null : await requireSameCall(services, key, sortedDigest);
      const stored = row ? { ...key, digest: row.digest } : key;
      const known = row && (await readKnownCall(services, session, stored, row, request));
      return known ?? (await makeCall(services, session, stored, { ...request, signal, isRepeated: !isNew }));
    } finally {
      owned?.end();
    }
  });
  if (!('handed' in answer)) return { result: readResult(answer) };
  const { arguments: args, attempt } = answer.handed;
  const isRepeated = attempt !== request.attempt;
  // The call may be that of another runtime, whose answer this request waited for.
  if (isRepeated) await requireHeldTurn(services.pool, turn, request.runtime);
  return { arguments: args, isRepeated };
}

const readResult = (answer: CallAnswer): ToolResult =>
  'result' in answer ? answer.result : failedTool(describeProblem(answer.problem.detail, answer.problem.errors));

async function makeCall(
  services: SessionServices,
  session: Session,
  key: CallKey,
  request: MadeRequest,
): Promise<CallAnswer | HandedCall> {
  await services.faultPoint('call.claimed');
  const made = await readAnswer(services, session, key, request).catch(async (error: unknown) => {
    // The handler did not run: the same id may be sent again.
    await releaseCall(services.pool, key);
    throw error;
  });
  await services.faultPoint('call.answered');
  if ('handed' in made) {
    if (await handCall(services.pool, key, made.handed)) return made;
    throw await explainRefusal(services.pool, key);
  }
  // A call that the runtime aborts by a request of its own is over, even if the tool did not run.
  const isAborted = request.signal?.aborted === true && !isClosedRequest(request.signal);
  const answer = made.isFinal ? made.answer : isAborted ? { result: UNSTARTED } : null;
  if (answer) return saveAnswer(services, key, answer, toToolMessage(key, { ...request, ...made }, answer));
  await releaseCall(services.pool, key);
  return made.answer;
}

/** Problems of a tool that did not run: its plugin did not run, or had too many calls. They are not the call's answer. */
const MAY_PASS: ReadonlySet<string> = new Set(['unavailable', 'rate_limited'] satisfies ProblemCode[]);

/** An answer, and the arguments that the tool got. Null: it got none. */
interface MadeCall extends Pick<JudgedResult, 'arguments' | 'isFinal' | 'judgement'> {
  readonly answer: CallAnswer;
}

/** @throws an error if the handler did not run for a reason that may pass */
async function readAnswer(
  services: SessionServices,
  session: Session,
  { turnId }: CallKey,
  { callId, name, arguments: args, isOwn, attempt, signal, isRepeated }: MadeRequest,
): Promise<MadeCall | HandedCall> {
  let passed: unknown = null;
  const onPassed = (judged: unknown) => {
    passed = judged;
  };
  try {
    const noticeId = createNoticeId(turnId, callId);
    const tool = await findToolOfCall(services, session, { name, isOwn }).catch(returnNotFound);
    if (tool instanceof Problem) {
      // Name and arguments are the model's text, and the transcript has them.
      const unknown = { callId, name, arguments: args, noticeId, onPassed };
      const { result, problem, ...judged } = await callBetweenHooks(services, session, unknown, async () => tool);
      return { ...judged, answer: problem ? { problem: describeAnswer(problem) } : { result } };
    }
    if (tool.kind === 'runtime') {
      const judged = await judgeCall(services, session, { callId, name, arguments: args, noticeId });
      if ('result' in judged) return { ...judged, answer: { result: judged.result } };
      return { handed: { arguments: judged.arguments as Json, attempt } };
    }
    const call = {
      callId,
      arguments: args,
      signal,
      noticeId,
      onPassed,
      requestId: digestOf([session.id, turnId, callId]),
      isRepeated,
    };
    const { result, ...judged } = await callTool(services, session, tool, call);
    return { ...judged, answer: { result } };
  } catch (error) {
    if (!(error instanceof Problem) || MAY_PASS.has(error.code)) throw error;
    return { answer: { problem: describeAnswer(error) }, arguments: passed, isFinal: true, judgement: OF_THE_HOST };
  }
}

const describeAnswer = ({ code, message: detail, errors }: Problem) => ({ code, detail, errors });

/** Returns the problem of a tool that does not exist. @throws any other error */
function returnNotFound(error: unknown): Problem {
  if (error instanceof Problem && error.code === 'not_found') return error;
  throw error;
}

/** The host's own text: no plugin had a part in it. */
const OF_THE_HOST: Judgement = { hook: 'toolResult', outcome: 'unchanged', asked: 0, by: [], reason: null };

const findToolOfCall = async (
  services: SessionServices,
  session: Session,
  { name, isOwn }: Pick<ToolRequest, 'name' | 'isOwn'>,
): Promise<FoundTool> => (isOwn ? { kind: 'runtime', tool: { name } } : findTool(services, session, name));

const createNoticeId = (turnId: string, callId: string): string => `${digestOf([turnId, callId])}:vetoed`;

/**
 * The tool has run: neither a transcript without room nor a database that is away must lose the answer.
 *
 * @returns the answer that the call has: another supervisor may have taken the account over, and answered it
 */
async function saveAnswer(
  { pool, writes }: SessionServices,
  key: CallKey,
  answer: CallAnswer,
  message: ReturnType<typeof toToolMessage>,
  resultDigest: string | null = null,
): Promise<CallAnswer> {
  const write = (added: typeof message | null) =>
    writes.write(() => answerCall(pool, key, answer, added, resultDigest));
  const isWritten = await write(message).catch((error: unknown) => {
    if (!(error instanceof Problem && error.code === 'quota_exceeded')) throw error;
    return write(null);
  });
  return isWritten ? answer : ((await findCall(pool, key))?.answer ?? answer);
}

function toToolMessage(
  { turnId, callId }: CallKey,
  { name, arguments: args, judgement }: Pick<MadeCall, 'arguments' | 'judgement'> & Pick<ToolRequest, 'name'>,
  answer: CallAnswer,
) {
  const result = readResult(answer);
  return {
    id: randomUUIDv7(),
    text: formatContent(result).slice(0, TEXT_MAX_CHARS).toWellFormed(),
    data: { turnId, callId, tool: name, arguments: args, isError: result.isError },
    judgement,
  };
}

const INTERRUPTED = failedTool(
  'The call was interrupted because its supervisor stopped. The tool may have run: check before you call it again.',
);

/** Finds the call of an earlier request with this id. @throws Problem `id_reused` if that request was another one */
async function requireSameCall({ pool }: SessionServices, key: CallKey, sortedDigest: string): Promise<CallRow> {
  const known = await findCall(pool, key);
  if (!known) throw await explainRefusal(pool, key);
  if (known.digest !== key.digest && known.sortedDigest !== sortedDigest)
    throw createReusedProblem('a call of this turn');
  return known;
}

/**
 * The answer of a call that was made before. Null: it was interrupted, and is to be made again.
 *
 * @throws Problem `turn_held`, `turn_ended` for a call without an answer
 */
async function readKnownCall(
  services: SessionServices,
  session: Session,
  key: CallKey,
  known: CallRow,
  request: ToolRequest,
): Promise<CallAnswer | HandedCall | null> {
  if (known.answer) return known.answer;
  // The claim failed, so nothing else has checked that the turn is open and that this runtime has its lease.
  await requireHeldTurn(services.pool, key, request.runtime);
  if (known.handed) return { handed: known.handed };
  // Null: the tool is gone. Any other error must not end the call, which may be one to make again.
  const tool = await findToolOfCall(services, session, request).catch(skipNotFound);
  if (tool && isRepeatable(tool)) return null;
  const answer = { result: INTERRUPTED };
  // The arguments that the plugins passed on are no longer known.
  const made = { name: request.name, arguments: null, judgement: OF_THE_HOST };
  return saveAnswer(services, key, answer, toToolMessage(key, made, answer));
}

/**
 * Judges the result of a call that the runtime performed, and adds it to the transcript. The same result answers the same.
 *
 * @throws Problem `turn_held`, `turn_ended`, `id_reused`, `not_found`, `too_large`
 */
export async function answerOwnCall(
  services: SessionServices,
  { session, key: turn, runtime }: TurnStep,
  { callId, result }: { readonly callId: string; readonly result: ToolResult },
): Promise<ToolResult> {
  const { pool, toolResultBytes } = services;
  return lockResult(services, { ...turn, callId }, async () => {
    const call = await requireCall(services, { ...turn, callId });
    if (call.answer && call.resultDigest === null)
      throw new Problem(
        'id_reused',
        'The call ended without a result of the runtime: it was aborted or cancelled, or the service performed it. Drop the result: GET …/calls/{callId} returns the one that the call has.',
      );
    const resultDigest = digestOf(result);
    if (call.answer) {
      const known = readResult(call.answer);
      // A result that no plugin changed is stored as it was sent, so that its keys may come in another order.
      if (call.resultDigest === resultDigest || isSameJson(known, result)) return known;
      throw createReusedProblem('a call that was answered');
    }
    if (!call.handed)
      throw new Problem('not_found', `No call with this id waits for its runtime. First ${HOW_TO_CALL}.`);
    if (Buffer.byteLength(JSON.stringify(result)) > toolResultBytes)
      throw new Problem('too_large', `The result of ${call.name} has more than ${toolResultBytes} bytes. Shorten it.`);
    await requireHeldTurn(pool, turn, runtime);
    const key = { ...turn, callId, digest: call.digest };
    const judged = { callId, name: call.name, arguments: call.handed.arguments };
    const durationMs = Math.max(0, Date.now() - Date.parse(call.startedAt));
    const noticeId = createNoticeId(turn.turnId, callId);
    const passed = await judgeResult(services, session, { ...judged, noticeId }, result, durationMs);
    await services.faultPoint('call.judged');
    const made = { ...judged, judgement: passed.judgement };
    return readResult(await saveOwnAnswer(services, key, made, passed.result, resultDigest));
  });
}

/** Of one call, one result at a time: the runtime may send one while it aborts the call. */
const lockResult = <T>(
  { turnLocks }: SessionServices,
  { sessionId, turnId, callId }: Omit<CallKey, 'digest'>,
  work: () => Promise<T>,
): Promise<T> => turnLocks.run(`${sessionId} ${turnId} result ${callId}`, work);

/** @param resultDigest null: the runtime sent no result */
function saveOwnAnswer(
  services: SessionServices,
  key: CallKey,
  made: Parameters<typeof toToolMessage>[1],
  result: ToolResult,
  resultDigest: string | null,
): Promise<CallAnswer> {
  const answer = { result };
  const { data, ...message } = toToolMessage(key, made, answer);
  // The adapters replace what their frameworks remember of it.
  const marked = { ...message, data: { ...data, performedBy: 'runtime' } };
  return saveAnswer(services, key, answer, marked, resultDigest);
}

const ABORTED = failedTool('The call was aborted: the runtime aborted it. The tool may have done a part of its work.');

/**
 * Aborts a call, and waits until it has ended. A call that the runtime performs ends here: the host cannot stop the runtime's work,
 * and accepts no result of it any more.
 *
 * @throws Problem `not_found`
 */
export async function abortCall(services: SessionServices, call: Omit<CallKey, 'digest'>): Promise<CallRow> {
  await services.runningCalls.abort(call, 'the runtime aborted it');
  return lockResult(services, call, async () => {
    const found = await requireCall(services, call);
    if (found.answer || !found.handed) return found;
    const made = { name: found.name, arguments: found.handed.arguments, judgement: OF_THE_HOST };
    await saveOwnAnswer(services, { ...call, digest: found.digest }, made, ABORTED, null);
    return requireCall(services, call);
  });
}

const HOW_TO_CALL = 'call the tool with POST /sessions/{id}/turns/{turnId}/calls/{callId}';

export function describeCall({ runningCalls }: SessionServices, turn: TurnKey, call: CallRow): CallState {
  const { callId, name, answer, handed, startedAt, endedAt } = call;
  const base = { callId, name, arguments: handed?.arguments ?? null, startedAt, endedAt };
  if (answer) return { ...base, state: 'answered', result: readResult(answer) };
  if (handed) return { ...base, state: 'performing', result: null };
  // No other supervisor makes calls of this account.
  return runningCalls.has({ ...turn, callId })
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
