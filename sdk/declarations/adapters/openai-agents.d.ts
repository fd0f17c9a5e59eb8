/** Bulkhead for the OpenAI Agents SDK: `new Runner(bulkhead(session))`, and `tools: await bulkheadTools(session)` in the agent. */
import { type Agent, type AgentOutputType, type AgentToolOptionsWithDefault, type ModelProvider, type RunConfig, type Tool } from '@openai/agents';
import type { Session } from '../session/session.js';
import { type AdapterOptions } from './judged-conversation.js';
type Filter = NonNullable<RunConfig['callModelInputFilter']>;
export interface AgentsOptions extends AdapterOptions {
    /** The provider of the agents' models. Default: OpenAI. */
    readonly modelProvider?: ModelProvider;
}
/**
 * Returns run settings that make each message of the user a turn of the session. Plugins judge the message, the system prompt and
 * the model's texts, and the transcript gets all of them. A text is passed on when it is judged, or at once if no plugin judges
 * messages. Agents must refer to their models by name, and `modelProvider` provides them: plugins could not judge the texts of a model
 * object.
 *
 * @throws VetoError from `run` if a plugin cancels a message
 */
export declare function bulkhead(session: Session, { modelProvider, ...options }?: AgentsOptions): AgentsSettings;
/** The run settings that `bulkhead` returns. */
export interface AgentsSettings {
    readonly callModelInputFilter: Filter;
    readonly modelProvider: ModelProvider;
}
/**
 * Makes an agent a tool of another one, as `agent.asTool(options)` does. Plugins judge the runs of this tool. A tool that `asTool`
 * makes would inherit only the model provider, not the filter, so the adapter refuses it.
 *
 * @param settings of the session of the agent that becomes a tool, from `bulkhead`
 */
export declare function agentTool<Context, Output extends AgentOutputType>(settings: AgentsSettings, agent: Agent<Context, Output>, options: AgentToolOptions<Context, Output>): ReturnType<Agent<Context, Output>['asTool']>;
type AgentToolOptions<Context, Output extends AgentOutputType> = AgentToolOptionsWithDefault<Context, Agent<Context, Output>> | Parameters<Agent<Context, Output>['asTool']>[0];
/** Returns the session's tools as Agents SDK tools. Call it again when the tools of the session change. */
export declare function bulkheadTools(session: Session): Promise<Tool[]>;
export { VetoError } from './veto-error.js';
