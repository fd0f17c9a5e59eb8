/**
 * One agent's conversation, judged, for all adapters. Each message of a user opens a turn of the session, the model gets the
 * messages after the plugins' changes, and no text of the model leaves before it is judged.
 */
import type { Session, ToolResult, Trigger } from '../session/session.js';
import { JudgedAnswer } from './judged-answer.js';
import { type MessageFile } from './message-files.js';
import { type RefusedCall, type ToolName } from './model-calls.js';
export interface AdapterOptions {
    /**
     * The id of the message that the next run answers. Pass the id of a channel's message, which was judged when it came, or an
     * id of yours: the same id is judged once, however often it is sent. Other messages of the same run, such as of an agent that
     * is a tool of the first, get turns of their own, whose texts are not sent to the channel.
     */
    readonly messageId?: string;
    /** The name of the sender of messages to the agent that plugins see. Default: `user`. */
    readonly from?: string;
    /** The cause of the agent's turns that plugins see. Default: `user`. */
    readonly trigger?: Trigger;
    /** The name of the recipient of the agent's messages that plugins see. Default: `user`. */
    readonly target?: string;
    /** Number of messages after which a plugin summarizes the conversation. Default: never. */
    readonly compactAfter?: number;
    /** Number of recent messages that the summary does not replace. Default: 4. */
    readonly keep?: number;
}
/** How an adapter reads and writes the messages of its framework. System prompts are not among them. */
export interface MessageFormat<Message> {
    /** The text of a user's message; null for messages of the agent and of tools. */
    readUserText(message: Message): string | null;
    /** Number of text parts that `readUserText` joins. */
    countTexts(message: Message): number;
    /** The parts of a user's message that are no text. */
    readFiles(message: Message): readonly MessageFile[];
    /**
     * Replaces text and files of a user's message. Files with an index are its own. The new text part keeps the options of the text
     * parts that it replaces.
     */
    replaceContent(message: Message, text: string, files: readonly MessageFile[]): Message;
    /** The calls of tools in a message of the agent. */
    readToolCalls(message: Message): ToolArguments[];
    /** The results of tools in a message. */
    readToolResult(message: Message): ToolText[];
    /** The message with another text in place of one of its results. */
    replaceToolResult(message: Message, callId: string, text: string): Message;
    /** Calls of the model that plugins refused, and why, as messages for the model. `reasoning` precedes the calls. */
    createRefusals(calls: readonly RefusedCall[], reasoning: readonly object[]): Message[];
    /** Adds reasoning that the framework did not get, each before the answer that has the call of its key. */
    addReasoning(messages: Message[], reasoning: ReadonlyMap<string, readonly object[]>): Message[];
}
interface ToolArguments {
    readonly callId: string;
    readonly arguments: unknown;
}
/** The name is empty if the message does not say it. */
interface ToolText extends ToolName {
    readonly callId: string;
    readonly text: string;
    readonly isError?: boolean;
}
/** A tool that the model may call. */
interface RequestTool extends ToolName {
    readonly description?: string | undefined;
    /** The schema of its arguments: the object that the app gave the framework. */
    readonly schema?: unknown;
}
interface ModelRequest<Message> {
    readonly systemPrompt: string;
    readonly model: string;
    readonly tools: readonly RequestTool[];
    readonly messages: readonly Message[];
    /** Whether a later request surely has the result of a call. Default: it has. */
    readonly takesResult?: (call: ToolName) => boolean;
    readonly signal?: AbortSignal | undefined;
}
/** The input for the model, and the judge of its answer. */
interface PreparedRequest<Message> {
    readonly systemPrompt: string;
    readonly messages: Message[];
    readonly answer: JudgedAnswer;
}
/** The conversation of a session, shared by its model and its tools. */
export declare function openConversation(session: Session): Conversation;
export declare class Conversation {
    #private;
    readonly session: Session;
    constructor(session: Session);
    /**
     * Judges the new messages of the user, and returns what the model may be asked.
     *
     * @throws VetoError before the model was asked
     */
    prepare<Message>(asked: ModelRequest<Message>, format: MessageFormat<Message>, options: AdapterOptions): Promise<PreparedRequest<Message>>;
    /** Adds tools of the session that the framework gets. Earlier ones may still be in use. */
    addOffered(tools: readonly RequestTool[]): void;
    /** Calls a tool in the turn whose model asked for it. */
    callTool(name: string, args: unknown, { callId, signal }: {
        callId?: string | undefined;
        signal?: AbortSignal | undefined;
    }): Promise<ToolResult>;
}
type ContentPart = ToolResult['content'][number];
/** Formats a part that is no image for a model. */
export declare const formatPart: (part: Exclude<ContentPart, {
    type: 'image';
}>) => string;
/** Formats a tool result for a model: text parts as they are, other parts as JSON. */
export declare const formatToolResult: ({ content }: ToolResult) => string;
export {};
