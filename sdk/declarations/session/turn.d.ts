/** One turn of an agent, step by step. Every step can be repeated: a request with the same ids returns the same result. */
import type { Attachment, Json, OpenedTurn, OwnCall, Prompt, PromptRequest, ToolResult, TurnCall, TurnDetail, TurnOutput, TurnRecord } from './api-types.js';
import { type OwnTools } from './own-tools.js';
import { type Cancellable, type Transport } from './transport.js';
interface OutputOptions extends Cancellable {
    /**
     * Your own id of the output and of its message. Default: made of the turn's id and the text: `output` with the text of an
     * earlier output without an id repeats that one, and `end` does so with the text of the last output.
     */
    readonly id?: string;
    readonly attachments?: readonly Attachment[];
    /** The name of the recipient that plugins see. Default: `user`. */
    readonly target?: string | undefined;
}
export declare class Turn {
    #private;
    readonly id: string;
    /** The turn as `openTurn` returned it; null after `session.turn(id)`. */
    readonly record: OpenedTurn | null;
    constructor(transport: Transport, ownTools: OwnTools, sessionId: string, id: string, record: OpenedTurn | null);
    /** Returns the turn with all its calls and outputs, so that another runtime can continue it. Reads all pages of them. */
    look({ signal }?: Cancellable): Promise<TurnDetail>;
    /** Returns the input for the model. Request it before every call of the model. */
    prompt({ signal, ...request }?: PromptRequest & Cancellable): Promise<Prompt>;
    /**
     * Calls a tool, also one of yours, once. An error that a model can correct is a result with `isError`, and so is a result of your
     * tool that the service cannot take, such as one that is too long. Aborting the signal aborts the call, and the promise rejects
     * when the service has aborted it. It rejects after a second at the latest; the client then goes on to abort the call. A lost
     * connection or the end of this process does not abort it: the tool continues.
     *
     * @param callId your own id; a call with the same id returns the same result for 24 hours
     * @param options.keepRunning the tool continues also when the signal aborts
     */
    call(callId: string, name: string, args?: Json, { signal, ...options }?: Cancellable & {
        readonly keepRunning?: boolean;
    }): Promise<ToolResult>;
    /**
     * Calls a tool and returns its result. For a tool of yours, returns the judged call instead: perform it, and send its result
     * with `answerCall`.
     *
     * @param options.own you perform the tool, although the session does not list it
     * @param options.keepRunning the tool continues also when the signal aborts
     */
    requestCall(callId: string, name: string, args?: Json, { signal, keepRunning, ...options }?: Cancellable & {
        readonly own?: boolean;
        readonly keepRunning?: boolean;
    }): Promise<ToolResult | OwnCall>;
    /**
     * Sends the result of a call of your own tool. Returns the result that the model may read. Half surrogate pairs and U+0000 in its
     * texts become U+FFFD, as in the texts of `output`, `stream` and `end`.
     */
    answerCall(callId: string, result: ToolResult, { signal }?: Cancellable): Promise<ToolResult>;
    /** Returns the state of a call and its result. */
    lookUpCall(callId: string, { signal }?: Cancellable): Promise<TurnCall>;
    /**
     * Sends a whole text of the agent. `show` of the response is the text that may be shown.
     *
     * @param options.isShown you have shown the text already, because the prompt said `outbound: 'none'`
     */
    output(text: string, { signal, ...options }?: OutputOptions & {
        isShown?: boolean;
    }): Promise<TurnOutput>;
    /** Sends one piece of a text of the agent. `show` of the response is the text that may be shown now, with pieces held back before. */
    piece(text: string, { signal, ...options }: OutputOptions & {
        readonly id: string;
        readonly piece: number;
        readonly done?: boolean;
    }): Promise<TurnOutput>;
    /**
     * Sends a text of the agent as the model writes it. Yields the texts that may be shown: each piece at once while no plugin
     * judges messages or all of them stream, otherwise the whole text at the end. Ends with the first response whose action is
     * `cancel`: then stop showing the text.
     */
    stream(pieces: AsyncIterable<string>, { signal, ...options }?: OutputOptions): AsyncGenerator<TurnOutput>;
    /**
     * Ends the turn and sends its last output to the channel of the session. If a plugin cancels `text`, the turn stays open.
     *
     * @param text the agent's last text, if it was not sent as an output
     * @param options.reply false: nothing is sent to the channel, because the turn is within another one. Default: true
     */
    end(text?: string, { signal, id, ...options }?: OutputOptions & {
        readonly reply?: boolean;
    }): Promise<TurnRecord>;
}
/** Sends the result of a call. One that the service cannot take becomes a failed result, which the model can read. */
export declare function sendResult(turn: Turn, callId: string, result: ToolResult, options: Cancellable): Promise<ToolResult>;
export {};
