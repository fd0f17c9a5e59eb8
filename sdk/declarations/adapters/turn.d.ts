import type { Session, ToolResult } from '../session/session.js';
/** A plugin cancelled the operation, or a required plugin did not run. `message` is safe to show to users. */
export declare class VetoError extends Error {
    readonly name = "VetoError";
    /** Slug of the plugin that cancelled, or that is required and did not run. */
    readonly plugin: string;
    readonly reason: string;
    /** Whether the plugin itself cancelled. False: it is required and did not run, and the operation may pass later. */
    readonly isFinal: boolean;
    constructor(plugin: string | null, reason: string | null, isFinal?: boolean);
}
export interface TurnOptions {
    /** The sender of messages to the agent, as plugins see it. Default: `user`. */
    readonly from?: string;
    /** The recipient of the agent's messages, as plugins see it. Default: `user`. */
    readonly target?: string;
    /** Number of messages after which a plugin summarizes the conversation. Default: never. */
    readonly compactAfter?: number;
    /** Number of recent messages that the summary does not replace. Default: 4. */
    readonly keep?: number;
}
/** A message as plugins see it. */
export interface PlainMessage {
    readonly role: 'system' | 'user' | 'assistant' | 'tool';
    readonly text: string;
}
/** How an adapter reads and writes the messages of its framework. */
interface MessageFormat<Message> {
    /** Returns the message with each text of a user replaced by what `inbound` returns. Other messages were judged earlier. */
    judge(message: Message, inbound: (text: string) => Promise<string>): Promise<Message>;
    toPlain(message: Message): PlainMessage;
    fromSummary(text: string): Message;
}
interface ConversationSummary {
    /** Number of messages that the summary replaces. */
    readonly upTo: number;
    readonly text: string;
}
export declare class Turn {
    #private;
    readonly session: Session;
    constructor(session: Session, options?: TurnOptions);
    /** Runs `systemPrompt` and returns the resulting prompt. @throws VetoError when a required plugin did not run */
    systemPrompt(systemPrompt: string, model: string): Promise<string>;
    /** Runs `inboundMessage` and returns the resulting text. @throws VetoError */
    inbound(text: string): Promise<string>;
    /** Whether a plugin judges the agent's messages now. True if the service does not say: text must not leave unjudged. */
    hasOutboundHook(): Promise<boolean>;
    /**
     * Runs `outboundMessage` on a text that was streamed, because no plugin judged messages when the stream began.
     *
     * @throws VetoError when a plugin that was installed meanwhile cancels or changes the text
     */
    confirmStreamed(text: string): Promise<void>;
    /** Runs `outboundMessage` and returns the resulting text. @throws VetoError */
    outbound(text: string): Promise<string>;
    /**
     * Runs `inboundMessage` on the user's messages and replaces the oldest messages of a long conversation by a summary.
     * The summary is added after the messages were judged, so no mark in a text can pass as one.
     *
     * @param messages without the system prompt
     * @throws VetoError
     */
    prepare<Message>(messages: readonly Message[], format: MessageFormat<Message>): Promise<Message[]>;
    /**
     * Asks a plugin to summarize a long conversation. Null if it is short or no plugin summarizes.
     *
     * @throws VetoError when a required plugin gave no usable summary
     */
    compact(messages: readonly PlainMessage[]): Promise<ConversationSummary | null>;
}
/** Formats a tool result for a model: text parts as they are, other parts as JSON. */
export declare const formatToolResult: ({ content }: ToolResult) => string;
/** The same for frameworks without failed results: the text says that the tool failed. */
export declare const formatToolOutcome: (result: ToolResult) => string;
export {};
