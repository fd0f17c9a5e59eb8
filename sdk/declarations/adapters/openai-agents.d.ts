/** Bulkhead for the OpenAI Agents SDK: `new Runner(bulkhead(session))`, and `tools: await bulkheadTools(session)` of the agent. */
import { type OutputGuardrail, type RunConfig, type Tool } from '@openai/agents';
import type { Session } from '../session/session.js';
import { type TurnOptions } from './turn.js';
type Filter = NonNullable<RunConfig['callModelInputFilter']>;
/**
 * Run settings that run the plugins' hooks on each model call. The framework does not allow changing a final output: a
 * plugin that cancels it trips a guardrail, and the text it would change is in the guardrail's `outputInfo`.
 *
 * @throws VetoError from `run` when a plugin cancels a user message
 */
export declare function bulkhead(session: Session, options?: TurnOptions): {
    callModelInputFilter: Filter;
    outputGuardrails: OutputGuardrail[];
};
/** Returns the session's tools as Agents SDK tools. */
export declare function bulkheadTools(session: Session): Promise<Tool[]>;
export { VetoError } from './turn.js';
