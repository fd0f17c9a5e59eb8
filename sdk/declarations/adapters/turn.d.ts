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
export declare class Turn {
    #private;
    readonly session: Session;
    constructor(session: Session, options?: TurnOptions);
    /** Runs `systemPrompt` and returns the resulting prompt. @throws VetoError when a required plugin did not run */
    systemPrompt(systemPrompt: string, model: string): Promise<string>;
    /** Runs `inboundMessage` and returns the resulting text. @throws VetoError */
    inbound(text: string): Promise<string>;
    /** Runs `outboundMessage` and returns the resulting text. @throws VetoError */
    outbound(text: string): Promise<string>;
    /**
     * Asks a plugin to summarize a long conversation. Returns the summary and the number of messages it replaces; null if
     * the conversation is short or no plugin summarizes.
     *
     * @param messages without the system prompt
     * @throws VetoError when a required plugin gave no usable summary
     */
    compact(messages: readonly PlainMessage[]): Promise<{
        replaced: number;
        summary: string;
    } | null>;
}
/** Formats a summary as a message of the conversation. */
export declare const formatSummary: (summary: string) => string;
export declare const isSummary: (text: string) => boolean;
/** Formats a tool result for a model: text parts as they are, other parts as JSON. */
export declare const formatToolResult: ({ content }: ToolResult) => string;
/** The same for frameworks without failed results: the text says that the tool failed. */
export declare const formatToolOutcome: (result: ToolResult) => string;
