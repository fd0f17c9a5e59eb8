/** Bulkhead for LangChain.js and LangGraph: `createAgent({ model: bulkhead(session, model), tools: await bulkheadTools(session) })`. */
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { StructuredTool } from '@langchain/core/tools';
import type { Session } from '../session/session.js';
import { type AdapterOptions } from './judged-conversation.js';
/**
 * A chat model that makes each message of the user a turn of the session: plugins judge it, the system prompt and the model's
 * texts, and the transcript has all of them. Text leaves when it is judged; while no plugin judges messages, at once.
 *
 * @throws VetoError from `invoke` and `stream` of the model and its agents when a plugin cancels a message
 */
export declare function bulkhead(session: Session, model: BaseChatModel, options?: AdapterOptions): BaseChatModel;
/** Returns the session's tools as LangChain tools. Call it again when the tools of the session change. */
export declare function bulkheadTools(session: Session): Promise<StructuredTool[]>;
export { VetoError } from './veto-error.js';
