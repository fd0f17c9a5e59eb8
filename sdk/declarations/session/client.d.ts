/** The client of the session API for agent runtimes. It retries idempotent calls and needs nothing but `fetch`. */
import type { Added, Command, Completion, CompletionRequest, EventFilter, HookAnswer, HookContext, HookCoverage, HookLink, HookName, HostToolGroup, MediaFile, NewMessage, NewSession, NewTurn, OwnTool, Page, Provider, SessionEvent, SessionRecord, Skill, SkillText, Summary, Tool, ToolResult, TranscriptMessage, Trigger, TurnRecord } from './api-types.js';
import { HostServices } from './host-services.js';
import { type Call, type Cancellable, Transport, type TransportOptions } from './transport.js';
import { Turn } from './turn.js';
interface Paged extends Cancellable {
    readonly limit?: number;
    readonly cursor?: string;
}
export declare function connect(options: TransportOptions): SessionClient;
export declare class SessionClient {
    #private;
    /** @param silenceMs a stream that sends nothing for this time is opened again, milliseconds */
    constructor(transport: Transport, silenceMs?: number);
    /** Starts a session, or opens the one with this `key`. Plugins receive `sessionStarted` of a new one. */
    start({ tools, ...fields }: NewSession, { signal }?: Cancellable): Promise<Session>;
    /**
     * Returns an existing session by its id, without a request.
     *
     * @param options.onCall gets every call of the session, its turns and its services before it is sent
     */
    open(id: string, { onCall }?: {
        readonly onCall?: (call: Call) => void;
    }): Session;
    /** Lists the sessions of the account. */
    list({ signal, ...query }?: Paged): Promise<Page<SessionRecord>>;
    /**
     * Lists the turns that are not over, of messages that arrived without one: of channels, reminders, mail and `append`. In the order of
     * the messages. Another runtime may hold them.
     */
    turns({ signal, ...query }?: Paged & {
        readonly agentId?: string | undefined;
    }): Promise<Page<TurnRecord>>;
    /**
     * Yields what is added to the account's transcripts until the signal aborts. Reconnects after the last position, so
     * nothing is missed or repeated, however long the service is away.
     *
     * @param after the `position` to continue from; without it, starts with the next message
     */
    added({ after, signal, ...filter }?: EventFilter & {
        after?: string;
    } & Cancellable): AsyncGenerator<Added>;
    /** Like `added`, and also yields when a session is cleared or deleted and when its tools change. */
    events({ after, signal, ...filter }?: EventFilter & {
        after?: string;
    } & Cancellable): AsyncGenerator<SessionEvent>;
    /**
     * Yields the messages of channels, reminders, mail and `append` that wait for an answer, oldest first, and then new ones until
     * the signal aborts. Open a turn with the id of each, one after another. After a restart, messages whose turns were not ended
     * come again. Reconnects, however long the service is away.
     */
    inbox({ signal, ...filter }?: EventFilter & Cancellable): AsyncGenerator<{
        readonly session: Session;
        readonly message: TranscriptMessage;
    }>;
}
export declare class Session {
    #private;
    readonly id: string;
    /** The session as `start` returned it; null after `open`. */
    readonly record: SessionRecord | null;
    /** To-dos, reminders, mail between agents and SSH commands. */
    readonly services: HostServices;
    constructor(transport: Transport, id: string, record: SessionRecord | null);
    /** Returns the current state of the session. */
    look({ signal }?: Cancellable): Promise<SessionRecord>;
    /**
     * Runs a hook of the account's plugins. If `action` is `cancel`, do not continue with the operation.
     *
     * @param name such as `systemPrompt` or `inboundMessage`
     * @param trigger what started the operation. Default: `user` for these two, `agent` for all others
     */
    hook<Name extends HookName>(name: Name, context: HookContext<Name>, { trigger, signal }?: {
        trigger?: Trigger;
    } & Cancellable): Promise<HookAnswer<Name>>;
    /** Lists the plugins that each hook runs now. */
    hooks({ signal }?: Cancellable): Promise<readonly HookLink[]>;
    /** Lists how often each hook ran for this session, and how many of its messages were judged. */
    coverage({ signal }?: Cancellable): Promise<readonly HookCoverage[]>;
    /** Asks a plugin to summarize. If `source` is `builtin`, the runtime must summarize itself. */
    compact(request?: {
        messages?: readonly TranscriptMessage[];
        focus?: string | null;
    }, { signal }?: Cancellable): Promise<Summary>;
    /** Adds messages to the transcript that `host.session` and compaction read. Idempotent by message id. */
    append(messages: readonly NewMessage[], { signal }?: Cancellable): Promise<Page<TranscriptMessage>>;
    /** Lists the messages of the transcript, oldest first unless `order` says otherwise. */
    messages({ signal, ...query }?: {
        readonly order?: 'oldest' | 'newest';
    } & Paged): Promise<Page<TranscriptMessage>>;
    /** Keeps a file with the session, for `mediaId` of attachments. Equal bytes have the same id. */
    putMedia({ data, ...file }: {
        readonly data: Uint8Array | string;
        readonly name?: string;
    }, { signal }?: Cancellable): Promise<MediaFile>;
    /** Returns the bytes of a media file of the account. */
    readMedia(mediaId: string, { signal }?: Cancellable): Promise<Uint8Array>;
    /** Sends an agent's reply to the channel of the session. Idempotent by `id`. */
    reply(text: string, { id, signal }?: {
        id?: string;
    } & Cancellable): Promise<{
        id: string;
    }>;
    /**
     * Opens a turn: the plugins judge the message, and it is added to the transcript. A repeated request with the same id returns
     * the same turn.
     *
     * @throws BulkheadError `turn_held` while another runtime has it
     */
    openTurn(turn: NewTurn, { signal }?: Cancellable): Promise<Turn>;
    /** Returns a turn by its id, without a request. */
    turn(id: string): Turn;
    /** Lists the turns of the session, oldest first unless `order` says otherwise. */
    turns({ signal, ...query }?: {
        readonly state?: TurnRecord['state'];
        readonly order?: 'oldest' | 'newest';
    } & Paged): Promise<Page<TurnRecord>>;
    /**
     * Chooses which of the host's tools and of your own the session offers; a list that is left out stays as it is. `turn.call`
     * performs your tools with their `run`. Returns all tools.
     */
    offerTools({ tools, ...offer }: {
        readonly hostTools?: readonly HostToolGroup[];
        readonly tools?: readonly OwnTool[];
    }, { signal }?: Cancellable): Promise<readonly Tool[]>;
    /** Gives `turn.call` the functions of tools, without a request: after `client.open(id)` of a session that lists them. */
    performTools(tools: readonly OwnTool[]): void;
    /** Whether `turn.call` has a function for this tool of yours. */
    canPerform(name: string): boolean;
    tools({ signal }?: Cancellable): Promise<readonly Tool[]>;
    /**
     * Calls a tool. A tool that fails returns a result with `isError` for the model to read. The handler sees the `callId`.
     * A repeated call runs the handler again; a call of a turn runs once per id. Aborting the signal aborts the call.
     *
     * @throws BulkheadError `invalid_arguments` with the fields that are wrong; ConnectionLostError if the tool may have run
     */
    callTool(name: string, args: unknown, { callId, signal }?: {
        callId?: string;
    } & Cancellable): Promise<ToolResult>;
    commands({ signal }?: Cancellable): Promise<readonly Command[]>;
    /** Runs a command and returns its text. */
    runCommand(name: string, input?: string, { signal }?: Cancellable): Promise<string>;
    skills({ signal }?: Cancellable): Promise<readonly Skill[]>;
    readSkill(name: string, { signal }?: Cancellable): Promise<SkillText>;
    providers({ signal }?: Cancellable): Promise<readonly Provider[]>;
    /** Completes a request with a model of a plugin's provider. */
    complete(provider: string, request: CompletionRequest, { signal }?: Cancellable): Promise<Completion>;
    /**
     * Like `complete`, but yields the pieces of the text as they come, and returns the whole answer. Ending the generator aborts the
     * call.
     *
     * @throws BulkheadError, also after some pieces; ConnectionLostError if the answer breaks off
     */
    streamCompletion(provider: string, request: CompletionRequest, { signal }?: Cancellable): AsyncGenerator<string, Completion>;
    /** Clears the transcript. @throws BulkheadError `cancelled` with the reason of the plugin that cancelled it */
    clear(body?: {
        reason?: string;
        by?: string;
        trigger?: Trigger;
    }, { signal }?: Cancellable): Promise<SessionRecord>;
    delete({ signal }?: Cancellable): Promise<void>;
}
export {};
