/** Runs an agent's tool call between two hooks: `middleware.toolCall` judges the call, and `middleware.toolResult` its result. */
import type { Session } from '../../db/sessions/sessions.ts';
import type { Judgement } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { limits } from '../../sdk/contract/limits.ts';
import type { ToolResult } from '../../sdk/session/api-types.ts';
import { type Cancel, type ChainState, formatCancel } from '../calls/chain.ts';
import { toJudgement } from '../calls/judgement.ts';
import { runSessionHook } from './hooks.ts';
import type { SessionServices } from './session-services.ts';
import { describeProblem, failedTool, readToolResult } from './tool-results.ts';

/**
 * Maximum size of a changed result of the host, such as the output of a command or a file, which may be larger than the result of a
 * plugin's tool: the answer of a hook comes in one frame. Bytes.
 */
export const HOST_RESULT_MAX_BYTES = limits.frameBytes;

export interface ToolCall {
  readonly callId: string;
  /** The full name. */
  readonly name: string;
  readonly arguments: unknown;
  /** Aborts the call. The plugin gets the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Id of the notice about a cancelled call, so that a repeated call writes it once. */
  readonly noticeId?: string | undefined;
  /** Called with the arguments that plugins let pass, before the tool runs. */
  readonly onPassed?: ((args: unknown) => void) | undefined;
  /** Maximum size of a result that plugins changed, bytes. Default: that of a plugin's tool. */
  readonly changedMaxBytes?: number | undefined;
}
export interface JudgedResult {
  readonly result: ToolResult;
  /** The problem that the result describes. Undefined if there is no problem, or if plugins replaced its text. */
  readonly problem?: Problem | undefined;
  /** The arguments that the plugins passed on. Null: the call was cancelled. */
  readonly arguments: unknown;
  /**
   * False: the tool did not run, because a plugin's hook failed or could not run, or the caller aborted the call before. The same
   * call may pass later.
   */
  readonly isFinal: boolean;
  /** The judgement of the result or, if the tool did not run, of the call. */
  readonly judgement: Judgement;
}

/** The caller aborted a call before its tool ran. */
export class UnstartedCallError extends Error {}
export const UNSTARTED = failedTool('The call was aborted before the tool ran.');

/**
 * Returns the judgement to store with a result. A cancel counts as a change: the host's text replaces the result, and a prompt must
 * contain it, because a model expects a result for each call. Prompts leave out cancelled messages.
 */
function toResultJudgement(hook: string, answer: ChainState): Judgement {
  const judgement = toJudgement(hook, answer);
  return answer.cancelled ? { ...judgement, outcome: 'changed' } : judgement;
}

/**
 * Runs a tool between its two hooks.
 *
 * @param run calls the tool with the arguments that passed. A problem that it returns contains text from the plugin's process and
 *   is judged like a result. A problem that it throws contains only the host's text and is not judged.
 *   `UnstartedCallError`: the tool did not run
 */
export async function callBetweenHooks(
  services: SessionServices,
  session: Session,
  call: ToolCall,
  run: (args: unknown) => Promise<ToolResult | Problem>,
): Promise<JudgedResult> {
  const passed = await judgeCall(services, session, call);
  if ('result' in passed) return passed;
  call.onPassed?.(passed.arguments);
  const started = performance.now();
  const ran = call.signal?.aborted ? null : await run(passed.arguments).catch(returnNullIfUnstarted);
  if (ran === null) return { ...passed, result: UNSTARTED, isFinal: false };
  const durationMs = Math.round(performance.now() - started);
  const problem = ran instanceof Problem ? ran : undefined;
  const result = ran instanceof Problem ? failedTool(describeProblem(ran.message, ran.errors)) : ran;
  const judged = await judgeResult(services, session, { ...call, ...passed }, result, durationMs).catch(
    (error: unknown) => {
      throw createUnjudgedProblem(call.name, error);
    },
  );
  const isUnchanged = judged.judgement.outcome === 'unchanged';
  return { ...judged, problem: isUnchanged ? problem : undefined, arguments: passed.arguments, isFinal: true };
}

function returnNullIfUnstarted(error: unknown): null {
  if (error instanceof UnstartedCallError) return null;
  throw error;
}

/** Turns `unavailable` and internal errors into `outcome_unknown`. Clients repeat a call after `unavailable`, but the tool has run. */
function createUnjudgedProblem(name: string, cause: unknown): Problem {
  if (cause instanceof Problem && cause.code !== 'unavailable') return cause;
  const detail = `${name} ran, but plugins could not judge its result. Check what it did before you call it again.`;
  return new Problem('outcome_unknown', detail, { cause });
}

/** @returns the arguments that passed, or the result of a call that was cancelled */
export async function judgeCall(
  services: SessionServices,
  session: Session,
  call: ToolCall,
): Promise<Pick<JudgedResult, 'arguments' | 'judgement'> | JudgedResult> {
  const { callId: id, name, arguments: args, noticeId } = call;
  const context = { call: { id, name, arguments: args } };
  const answer = await runSessionHook(services, session, 'middleware.toolCall', context, 'agent', { noticeId });
  const { cancelled } = answer;
  const judgement = toResultJudgement('toolCall', answer);
  if (!cancelled) return { arguments: (answer.context as typeof context).call.arguments, judgement };
  const isFinal = cancelled.cause === 'plugin';
  const describe = (reason: string): string => formatCancel({ ...cancelled, reason });
  const explained = await explainCancel(services, session, call, cancelled, describe, 0);
  const { result, ...judged } = withReason(explained, judgement);
  return { ...judged, result: isFinal ? result : { ...result, isFinal }, arguments: null, isFinal };
}

/**
 * Runs the hook on a result, and returns what the agent may read. If a required plugin fails to judge the result, it is withheld for
 * good, because the tool has already run.
 */
export async function judgeResult(
  services: SessionServices,
  session: Session,
  call: ToolCall,
  result: ToolResult,
  durationMs: number,
): Promise<Pick<JudgedResult, 'result' | 'judgement'>> {
  const answer = await runResultHook(services, session, call, result, durationMs);
  const { cancelled } = answer;
  const judgement = toResultJudgement('toolResult', answer);
  if (!cancelled) return { result: answer.result, judgement };
  const describe = (reason: string): string =>
    cancelled.cause === 'plugin'
      ? `The tool ran, but ${cancelled.by.displayName} withheld its result: ${reason}`
      : `The tool ran, but its result is withheld: ${reason}`;
  return withReason(await explainCancel(services, session, call, cancelled, describe, durationMs), judgement);
}

interface ExplainedCancel {
  readonly result: ToolResult;
  /** Whether the other plugins let the reason pass as it is. */
  readonly isUnchanged: boolean;
}

const withReason = ({ result, isUnchanged }: ExplainedCancel, judgement: Judgement) => ({
  result,
  judgement: isUnchanged ? judgement : { ...judgement, reason: null },
});

/**
 * Returns the result that explains a cancel to the agent. The other plugins judge it, because the first plugin's reason may
 * repeat text that they would withhold.
 */
async function explainCancel(
  services: SessionServices,
  session: Session,
  call: ToolCall,
  { reason, by, cause }: Cancel,
  describe: (reason: string) => string,
  durationMs: number,
): Promise<ExplainedCancel> {
  const explained = failedTool(describe(reason));
  // The reason of a failure contains only the host's text.
  if (cause === 'failure') return { result: explained, isUnchanged: true };
  // Another id, because the first cancel has written its notice under `noticeId`.
  const judged = { ...call, noticeId: call.noticeId && `${call.noticeId}:reason` };
  const answer = await runResultHook(services, session, judged, explained, durationMs, by.installationId);
  const result = answer.cancelled ? failedTool(describe('another plugin withheld its reason')) : answer.result;
  return { result, isUnchanged: result === explained };
}

/** Runs `middleware.toolResult`. The returned `result` has the plugins' changes. */
async function runResultHook(
  services: SessionServices,
  session: Session,
  { callId: id, name, arguments: args, noticeId, changedMaxBytes = services.toolResultBytes }: ToolCall,
  result: ToolResult,
  durationMs: number,
  excludedInstallationId?: string,
): Promise<ChainState & { readonly result: ToolResult }> {
  const context = { call: { id, name, arguments: args }, result, durationMs };
  const options = { noticeId, excludedInstallationId };
  const answer = await runSessionHook(services, session, 'middleware.toolResult', context, 'agent', options);
  if (answer.cancelled || !answer.trace.some(({ outcome }) => outcome === 'changed')) return { ...answer, result };
  const changed = (answer.context as typeof context).result;
  return { ...answer, result: readToolResult(name, changed, changedMaxBytes) };
}
