/** Sends requests to the session API with `fetch`, and retries those that are safe to retry. Uses web globals only. */
import type { ProblemLocation } from '../contract/errors.js';
export interface TransportOptions {
    /** Address of the session API, such as `http://localhost:4010`. */
    readonly url: string;
    /** The bearer token, or a function that returns one. The function is called for every request. */
    readonly token: string | (() => string | Promise<string>);
    /** How long a call is retried after its first failure, while the service restarts or asks to wait, milliseconds. Default: 30,000. 0: never. */
    readonly retryForMs?: number;
    /**
     * Names this runtime as the holder of turns. A restarted runtime with the same name continues its turns at once; others
     * wait until the lease has expired. Default: a random name.
     */
    readonly runtime?: string;
    /** Replaces the global `fetch`. */
    readonly fetch?: typeof globalThis.fetch;
}
/** The options of a call that an agent runtime can abort. */
export interface Cancellable {
    readonly signal?: AbortSignal | undefined;
}
export interface Call extends Cancellable {
    readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
    /** Path below the address, starting with `/`. */
    readonly path: string;
    readonly body?: unknown;
    /** Replaces `body`: bytes of another content type. `open` is called for every attempt. */
    readonly stream?: {
        readonly type: string;
        readonly open: () => ReadableStream<Uint8Array>;
    };
    readonly headers?: Readonly<Record<string, string>>;
    /** Whether the call is idempotent. Default: true for GET, false otherwise. */
    readonly repeatable?: boolean;
}
/** For clients of the session API. Runtimes and `bulkhead` read different addresses from BULKHEAD_URL. */
export declare const SESSION_API_HINT = "If this is the REST interface, use the address of the session API (default: http://localhost:4010). Runtimes read it from BULKHEAD_URL, `bulkhead` reads it from BULKHEAD_SESSION_URL.";
/** Whether an address does not exist, as that of the session API at another service. */
export declare const isRouteMissing: (error: unknown) => boolean;
/**
 * The service responded with a problem, or the token cannot be sent (401, `unauthenticated`). REFERENCE.md and the API reference list
 * the values of `code`.
 */
export declare class BulkheadError extends Error {
    readonly name = "BulkheadError";
    readonly status: number;
    readonly code: string;
    readonly requestId: string | null;
    readonly errors: readonly ProblemLocation[];
    constructor(status: number, body: ProblemLike);
}
/** Whether the service responded with a problem of this code. */
export declare const hasCode: (error: unknown, code: string) => error is BulkheadError;
/**
 * The connection to the service, or from the service to the supervisor, broke after the request was sent, or the service says that the call may
 * have taken effect, and why. So it is not retried.
 */
export declare class ConnectionLostError extends Error {
    readonly name = "ConnectionLostError";
}
/** The address is not that of a service: it redirects to another one, or its certificate is refused. The call had no effect. */
export declare class AddressError extends Error {
    readonly name = "AddressError";
}
/** Returns the address that the failed call was sent to, as it was given to `Transport`. Undefined for other errors. */
export declare const readAddress: (error: unknown) => string | undefined;
/**
 * Whether a call failed because the service is away or overloaded, so that it may succeed later. False where the call may have taken
 * effect and is not idempotent. True for an address that redirects or whose certificate is refused: if it worked before, its operator will
 * correct it.
 */
export declare function isOutage(error: unknown): boolean;
interface ProblemLike {
    readonly title?: string;
    readonly detail?: string;
    readonly code?: string;
    readonly requestId?: string;
    readonly errors?: readonly ProblemLocation[];
    /** The error of JSON-RPC in which a problem over MCP comes. */
    readonly rpcError?: RpcError;
}
/** The form of a problem over MCP. */
interface RpcError {
    readonly code?: number;
    readonly message?: string;
    readonly data?: object;
}
export declare class Transport {
    #private;
    /**
     * @param noRouteHint what to do if the service has no route for a call
     * @param onCall gets every call before it is sent, once for all attempts
     * @throws Error if the address is not absolute. In a page it may be relative.
     */
    constructor(options: TransportOptions, noRouteHint?: string, onCall?: (call: Call) => void);
    /** Returns a transport of the same runtime whose calls `onCall` gets. */
    withObserver(onCall: (call: Call) => void): Transport;
    /**
     * Returns the JSON of a successful response; null for 204.
     *
     * @throws BulkheadError, ConnectionLostError, AddressError, the error of `fetch` when no connection was made or the call is idempotent, the
     * signal's reason, or Error if the response is not JSON
     */
    json<T>(call: Call): Promise<T>;
    /** Returns the bytes of a successful response. @throws the same errors as `json` */
    bytes(call: Call): Promise<Uint8Array>;
    /** Returns a successful response with its body unread. @throws the same errors as `json` */
    open(call: Call): Promise<Response>;
}
/** Node's `fetch` has the error code in `cause`. */
export declare function readErrorCode(error: unknown): string;
export {};
