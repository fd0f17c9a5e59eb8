/** Bulkhead for the Vercel AI SDK: `wrapLanguageModel({ model, middleware: bulkhead(session) })` and `tools: await bulkheadTools(session)`. */
import { type LanguageModelMiddleware, type ToolSet } from 'ai';
import type { Session } from '../session/session.js';
import { type TurnOptions } from './turn.js';
/**
 * A middleware that runs the plugins' hooks on the system prompt, user messages, model messages and long conversations.
 * While a plugin judges the agent's messages, streamed text is buffered until it is complete and judged.
 *
 * @throws VetoError from `generateText` and `streamText` when a plugin cancels a message
 */
export declare function bulkhead(session: Session, options?: TurnOptions): LanguageModelMiddleware;
/** Returns the session's tools as AI SDK tools. Call it again when the tools of the session change. */
export declare function bulkheadTools(session: Session): Promise<ToolSet>;
export { VetoError } from './turn.js';
