export interface ServerSentEvent {
    readonly id: string;
    readonly type: string;
    readonly data: string;
}
interface FollowOptions {
    /** Opens the stream after the event with this id. */
    readonly open: (lastId: string | undefined) => Promise<ReadableStream<Uint8Array> | null>;
    /** Id of the last event that is known; without it, the stream starts with the next event. */
    readonly after?: string | undefined;
    /** Whether to try again after `open` failed. */
    readonly isRetryable: (error: unknown) => boolean;
    /** Called before the pause after a stream ended or broke, or `open` failed with this error. */
    readonly onBreak?: (error?: unknown) => void;
    /** Longest pause before the stream is opened again, milliseconds. */
    readonly pauseMs: number;
    /** A stream that sends nothing for this time has ended, milliseconds. Default: 45,000. */
    readonly silenceMs?: number;
    readonly signal?: AbortSignal | undefined;
}
/** Three heartbeats of the service. Milliseconds. */
export declare const STREAM_SILENCE_MS = 45000;
/**
 * Reads events until the signal aborts. Opens the stream again after the last event whenever it ends or breaks.
 *
 * @throws the error of `open` that is not retryable, or the signal's reason
 */
export declare function followEvents(options: FollowOptions): AsyncGenerator<ServerSentEvent>;
/**
 * Reads events until the stream ends. An event with only an id has empty `data`.
 *
 * @param silenceMs a stream that sends nothing for this time has ended, milliseconds; without it, it may be silent
 */
export declare function readEvents(body: ReadableStream<Uint8Array> | null, silenceMs?: number): AsyncGenerator<ServerSentEvent>;
export {};
