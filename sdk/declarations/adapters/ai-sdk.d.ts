/** Bulkhead for the Vercel AI SDK: `wrapLanguageModel({ model, middleware: bulkhead(session) })` and `tools: await bulkheadTools(session)`. */
import { type LanguageModelMiddleware, type ToolSet } from 'ai';
import type { Session } from '../session/session.js';
import { type AdapterOptions } from './judged-conversation.js';
/**
 * A middleware that makes each message of the user a turn of the session: plugins judge it, the system prompt and the model's
 * texts, and the transcript has all of them. Text leaves when it is judged; while no plugin judges messages, at once.
 *
 * @throws VetoError from `generateText` and `streamText` when a plugin cancels a message
 */
export declare function bulkhead(session: Session, options?: AdapterOptions): LanguageModelMiddleware;
/** Returns the session's tools as AI SDK tools. Call it again when the tools of the session change. */
export declare function bulkheadTools(session: Session): Promise<ToolSet>;
export { VetoError } from './veto-error.js';
