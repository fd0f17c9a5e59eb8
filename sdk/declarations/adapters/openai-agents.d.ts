/** Bulkhead for the OpenAI Agents SDK: `new Runner(bulkhead(session))`, and `tools: await bulkheadTools(session)` of the agent. */
import { type Agent, type AgentOutputType, type AgentToolOptionsWithDefault, type ModelProvider, type RunConfig, type Tool } from '@openai/agents';
import type { Session } from '../session/session.js';
import { type AdapterOptions } from './judged-conversation.js';
type Filter = NonNullable<RunConfig['callModelInputFilter']>;
export interface AgentsOptions extends AdapterOptions {
    /** The provider of the agents' models. Default: OpenAI. */
    readonly modelProvider?: ModelProvider;
}
/**
 * Run settings that make each message of the user a turn of the session: plugins judge it, the system prompt and the model's
 * texts, and the transcript has all of them. Text leaves when it is judged; while no plugin judges messages, at once. Agents
 * must name their models: the provider is an option, because text of a model that the settings do not provide would leave
 * unjudged.
 *
 * @throws VetoError from `run` when a plugin cancels a message
 */
export declare function bulkhead(session: Session, { modelProvider, ...options }?: AgentsOptions): AgentsSettings;
/** The run settings that `bulkhead` returns. */
export interface AgentsSettings {
    readonly callModelInputFilter: Filter;
    readonly modelProvider: ModelProvider;
}
/**
 * Makes an agent a tool of another one, as `agent.asTool(options)` does, whose runs go through the plugins. Runs of a tool that
 * `asTool` makes inherit the provider of models only, so the adapter refuses such tools.
 *
 * @param settings those of the helper's own session, from `bulkhead`
 */
export declare function agentTool<Context, Output extends AgentOutputType>(settings: AgentsSettings, agent: Agent<Context, Output>, options: AgentToolOptions<Context, Output>): ReturnType<Agent<Context, Output>['asTool']>;
type AgentToolOptions<Context, Output extends AgentOutputType> = AgentToolOptionsWithDefault<Context, Agent<Context, Output>> | Parameters<Agent<Context, Output>['asTool']>[0];
/** Returns the session's tools as Agents SDK tools. Call it again when the tools of the session change. */
export declare function bulkheadTools(session: Session): Promise<Tool[]>;
export { VetoError } from './veto-error.js';
