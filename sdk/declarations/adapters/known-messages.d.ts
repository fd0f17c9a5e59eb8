/** The messages of users that a session knows, read page by page, and which of them the messages of a request are. */
import type { Attachment, Prompt, Session, Trigger, Turn, TurnRecord } from '../session/session.js';
/** A message of a user that this session knows. */
export interface KnownMessage {
    readonly turn: Turn;
    /** Digest of the text as it was sent. Empty: only the service's id and text identify the message. */
    digest: string;
    state: TurnRecord['state'];
    /** Whether it is within the turn of another message, whose answer alone goes to the channel. */
    isInner: boolean;
    /** The text after the plugins' changes. */
    text: string | null;
    readonly attachments: readonly Attachment[];
    /** The files with which the message came last. Null: this process has not sent them. */
    sent: SentFiles | null;
    /** Digest of the text in whose place the model got this message, because the app named it by its id. */
    askedDigest?: string | undefined;
    /** As it came with the opened turn; it is good for one call of the model. */
    prompt?: Prompt | undefined;
    /** As the service listed its turn. Undefined: this process opened the turn. */
    readonly record?: TurnRecord;
    /** Of an ended turn whose results a prompt lacked. */
    results?: CallResults;
}
/** Files of a message as they are sent to be judged. */
export interface SentFiles {
    readonly digest: string;
    readonly attachments: readonly Attachment[];
}
/** Texts of results after the plugins' changes, by call. Null: the service called the tool, so the framework has that text. */
export type CallResults = ReadonlyMap<string, string | null>;
/** The messages of a request, by index. */
interface AskedMessages {
    /** Texts of users without files, which may be compared. */
    readonly words: readonly (string | null)[];
    /** Of messages of users. Null: another message. */
    readonly digests: readonly (string | null)[];
    /** Index of the last message that is not a user's. */
    readonly lastReply: number;
    /** The id that the app gave the last message. */
    readonly messageId: string | undefined;
    /** Ids of the calls whose results come after the last message. */
    readonly resultIds: readonly string[];
}
/** What this process does in turns. */
export interface TurnWork {
    /** Whether the model answers in a turn, or calls wait for results that are not among these. */
    readonly isBusy: (turnId: string, resultIds: readonly string[]) => boolean;
    readonly hasCallOf: (turnId: string, callIds: readonly string[]) => boolean;
}
/** The cause of turns within the turn of another message: an agent that answers it asked a model. */
export declare const INNER_TRIGGER: Trigger;
export declare class KnownMessages {
    #private;
    constructor(session: Session);
    /** Whether a page was read, or the session had no messages when it was started here. */
    get wasRead(): boolean;
    /** Whether no older messages are left to read. */
    get isComplete(): boolean;
    get isEmpty(): boolean;
    find(turnId: string): KnownMessage | undefined;
    /** Returns the last message whose turn is open. */
    findOpen(): KnownMessage | undefined;
    /** Lists the messages that are not among these. */
    listOthers(known: readonly (KnownMessage | null)[]): KnownMessage[];
    /** Adds a message, or replaces the one of its turn. */
    set(message: KnownMessage): void;
    remove(message: KnownMessage): void;
    /** Reads more of the messages that the session has, newest first, until there are no more. */
    loadMore(signal?: AbortSignal): Promise<void>;
    /** Reads the newest messages, back to the first page that has a known one, or one page if none is known. */
    loadNewest(signal?: AbortSignal): Promise<void>;
    /**
     * Lists messages that another process opened under ids of the app, newest first: they may have files, or plugins may have changed
     * their texts, so that only the service knows what was sent.
     *
     * @param knownByIndex as `match` returned it; the listed messages come between those of the indexes around
     */
    listUnrecognized(knownByIndex: readonly (KnownMessage | null)[], index: number): KnownMessage[];
    /**
     * Finds messages among those that the session knows, from the last one back. A message that was answered and comes again without its
     * answer is a new message.
     *
     * @returns the known message at the index of each message of a request that has one
     */
    match({ words, digests, lastReply, messageId, resultIds }: AskedMessages, { isBusy, hasCallOf }: TurnWork): (KnownMessage | null)[];
}
export {};
