/** Answers messages that come to an account's sessions: of channels, of due reminders, and mail of other agents. */
import type { TranscriptMessage, Trigger } from './api-types.js';
import { type Session, type SessionClient } from './client.js';
/** A message to answer. `id` is the id of its turn, too. */
export interface ServedMessage {
    readonly id: string;
    readonly text: string;
    readonly trigger: Trigger;
    readonly message: TranscriptMessage;
}
/**
 * Answers a message: returns the text, or yields its pieces. An adapter with `messageId: message.id` ends the turn itself; for
 * any other agent the turn is opened and ended around the answer.
 */
export type ServedAgent = (message: ServedMessage, context: {
    readonly session: Session;
    readonly signal: AbortSignal;
}) => Promise<string | void> | AsyncIterable<string>;
export interface ServeOptions {
    /** Answers the messages of every connected channel. */
    readonly channels?: boolean;
    /** Answers reminders that are due for an agent. */
    readonly reminders?: boolean;
    /** Answers mail of other agents. */
    readonly mail?: boolean;
    /** Default: `connect` with BULKHEAD_URL, BULKHEAD_TOKEN and BULKHEAD_RUNTIME of the environment. */
    readonly client?: SessionClient;
    /** Answers this agent's sessions only. */
    readonly agentId?: string;
    /** How long other processes leave a message to this one after it has stopped. Default: 120. */
    readonly leaseSeconds?: number;
    /** Ends when it aborts, also the answers that run. */
    readonly signal?: AbortSignal;
    /** A position that `onPosition` got: goes on after it. Default: with the next message, and with turns that are open. */
    readonly after?: string;
    /**
     * Called when all messages up to a position are over: answered, reported to `onError`, or left to another process. Keep the
     * position to answer messages that come while no process runs.
     */
    readonly onPosition?: (position: string) => void;
    /** Called when an answer failed, but not when a plugin stopped it. Default: the process fails. Other messages are answered meanwhile. */
    readonly onError?: (error: unknown, message: ServedMessage) => void;
}
/**
 * Answers messages until the signal aborts: those of one session in their order, sessions at the same time. Of several
 * processes, the one that holds a message's turn answers it, and the others wait with the session's next messages; if it
 * stops, another one continues when the lease has expired. While a required plugin does not run, its messages wait, and while the
 * service is away, all do.
 *
 * @throws the first error of an agent, without `onError`; BulkheadError if the stream of messages is refused; the error of `fetch` if
 * the service cannot be reached at the start
 */
export declare function serve(agent: ServedAgent, options: ServeOptions): Promise<void>;
