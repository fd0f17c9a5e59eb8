/** Bulkhead for the OpenAI Agents SDK: `new Runner(bulkhead(session))`, and `tools: await bulkheadTools(session)` of the agent. */
import { type ModelProvider, type RunConfig, type Tool } from '@openai/agents';
import type { Session } from '../session/session.js';
import { type TurnOptions } from './turn.js';
type Filter = NonNullable<RunConfig['callModelInputFilter']>;
export interface AgentsOptions extends TurnOptions {
    /** The provider of the agents' models. Default: OpenAI. */
    readonly modelProvider?: ModelProvider;
}
/**
 * Run settings that run the plugins' hooks on each model call. While a plugin judges the agent's messages, they are streamed
 * whole, after they are judged. Agents must name their models: the provider is an option, because text of a model that the
 * settings do not provide would leave unjudged.
 *
 * @throws VetoError from `run` when a plugin cancels a message
 */
export declare function bulkhead(session: Session, { modelProvider, ...options }?: AgentsOptions): {
    callModelInputFilter: Filter;
    modelProvider: ModelProvider;
};
/** Returns the session's tools as Agents SDK tools. */
export declare function bulkheadTools(session: Session): Promise<Tool[]>;
export { VetoError } from './turn.js';
