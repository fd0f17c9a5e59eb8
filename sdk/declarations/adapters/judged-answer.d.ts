/** Judges one answer of a model, whole or as it is streamed, and returns judged texts only. */
import type { Prompt, Turn } from '../session/session.js';
import type { ModelCall, RefusedCall, ToolName } from './model-calls.js';
import { VetoError } from './veto-error.js';
interface AnswerOptions {
    readonly turn: Turn;
    /** How plugins judge texts, as the turn's prompt said. */
    readonly outbound: Prompt['outbound'];
    readonly target: string | undefined;
    readonly signal: AbortSignal | undefined;
    /** Whether a tool is the framework's own. */
    readonly isOwn: (tool: ToolName) => Promise<boolean>;
    /** Returns an id that no other call of the turn has, and for a call of a plugin's tool, none of another process either. */
    readonly onCallId: (callId: string, tool: ToolName) => Promise<string>;
    /** Has the plugins judge a call. */
    readonly onCall: (call: ModelCall) => Promise<ModelCall | RefusedCall>;
    /** Keeps refused calls for the model, and the reasoning before them if all were refused. Returns whether it may be asked again. */
    readonly onRefused: (calls: readonly RefusedCall[], isAll: boolean, reasoning: readonly object[]) => boolean;
    /** Keeps reasoning that the framework does not get, for the model. */
    readonly onReasoningLeftOut: (callId: string, reasoning: readonly object[]) => void;
    readonly onEnd: () => Promise<void>;
    /** The next message of the conversation waits for this work. */
    readonly onAbandon: (work: Promise<unknown>) => void;
}
export declare class JudgedAnswer {
    #private;
    /** Whether the model reported an error. The app may ask again before it has read the answer to its end. */
    hasFailed: boolean;
    constructor(options: AnswerOptions);
    /** Whether text may leave as the model writes it, because no plugin judges messages. */
    get isFree(): boolean;
    /** Whether the model may still answer, or its answer is judged. */
    get isRunning(): boolean;
    get isAborted(): boolean;
    /** Runs a step of the answer. If it fails, abandons the answer, so that the same message can be answered again. */
    attempt<T>(work: () => PromiseLike<T>): Promise<T>;
    /** Abandons an answer that failed. Returns the error to throw: a veto of what was shown counts more than the failure. */
    fail(error: unknown): Promise<unknown>;
    /** Judges the whole text of the answer. @throws VetoError */
    judge(text: string): Promise<string>;
    /** Opens the text that the model writes piece by piece: the whole text of the answer, so that plugins judge no part of it alone. */
    openStream(): JudgedStream;
    /** Whether a tool is the framework's own, whose calls are shown when they are judged. */
    isOwn(name: string): Promise<boolean>;
    /** Returns the id that a call will have when it is judged. */
    nameCall(callId: string, tool: ToolName): Promise<string>;
    /** Has the plugins judge a call of a tool. Returns the call after their changes. Null: leave it out. */
    judgeCall(call: ModelCall): Promise<ModelCall | null>;
    /**
     * Keeps the reasoning of the answer, in the form of the framework's messages. Some providers refuse a request in which the calls of
     * an answer come without its reasoning.
     *
     * @param isLeftOut whether the framework does not get the reasoning
     */
    keepReasoning(reasoning: readonly object[], isLeftOut: boolean): void;
    /**
     * Ends the turn, unless the model called a tool. Nothing of the answer may be left.
     *
     * @returns true: plugins refused all calls, so ask the model again with a request that is prepared anew
     */
    end(): Promise<boolean>;
    /**
     * Records what was shown of an answer that broke off, so that the transcript has it. Never fails. Returns the veto of a plugin that was
     * installed after the text was shown.
     */
    abandon(): Promise<VetoError | null>;
}
/** The text of an answer as the model writes it. */
export declare class JudgedStream {
    #private;
    /** Everything that was returned, judged. */
    shown: string;
    constructor(options: AnswerOptions);
    /** Returns what may be shown now. @throws VetoError; Error after `abandon` */
    push(delta: string): Promise<string>;
    /** Returns the rest that may be shown. @throws VetoError; Error after `abandon` */
    end(): Promise<string>;
    /** Never fails. Returns the veto of the text that was shown and not sent yet. */
    abandon(): Promise<VetoError | null>;
}
export {};
