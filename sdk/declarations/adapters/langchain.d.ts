import { type AgentMiddleware } from 'langchain';
import type { Session } from '../session/session.js';
import { type TurnOptions } from './turn.js';
/**
 * A middleware that adds the session's tools and runs the plugins' hooks on each model call. While a plugin judges the
 * agent's messages, they are streamed whole, after they are judged. List it last: a middleware behind it that replaces the
 * model would stream unjudged text.
 *
 * @throws VetoError from `agent.invoke` and `agent.stream` when a plugin cancels a message
 */
export declare function bulkhead(session: Session, options?: TurnOptions): Promise<AgentMiddleware>;
/** Returns the session's tools as LangChain tools. */
export declare function bulkheadTools(session: Session): Promise<import("langchain").DynamicStructuredTool<{
    type: "object";
}, unknown, unknown, string, unknown, string>[]>;
export { VetoError } from './turn.js';
