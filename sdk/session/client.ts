/** The client of the session API for agent runtimes. It retries idempotent calls and needs nothing but `fetch`. */
import type {
  Added,
  Command,
  Completion,
  CompletionRequest,
  EventFilter,
  HookAnswer,
  HookContext,
  HookCoverage,
  HookLink,
  HookName,
  HostToolGroup,
  MediaFile,
  NewMessage,
  NewSession,
  NewTurn,
  OpenedTurn,
  OwnTool,
  Page,
  Provider,
  SessionEvent,
  SessionRecord,
  Skill,
  SkillText,
  Summary,
  Tool,
  ToolResult,
  TranscriptMessage,
  Trigger,
  TurnRecord,
  WaitingMessage,
} from './api-types.ts';
import { encodeBase64 } from './base64.ts';
import { addId } from './default-id.ts';
import { followEvents, readEvents, STREAM_SILENCE_MS } from './event-stream.ts';
import { HostServices } from './host-services.ts';
import { describeTools, OwnTools } from './own-tools.ts';
import { readPages } from './pages.ts';
import { pause } from './pause.ts';
import { toQueryString } from './query-string.ts';
import {
  BulkheadError,
  type Call,
  type Cancellable,
  ConnectionLostError,
  isOutage,
  SESSION_API_HINT,
  Transport,
  type TransportOptions,
} from './transport.ts';
import { Turn } from './turn.ts';

/** Pause before a reconnect: equals the `retry:` of the service's stream. Milliseconds. */
const STREAM_PAUSE_MS = 2_000;

interface Paged extends Cancellable {
  readonly limit?: number;
  readonly cursor?: string;
}

export function connect(options: TransportOptions): SessionClient {
  return new SessionClient(new Transport(options, SESSION_API_HINT));
}

export class SessionClient {
  readonly #transport: Transport;
  readonly #silenceMs: number;

  /** @param silenceMs a stream that sends nothing for this time is opened again, milliseconds */
  constructor(transport: Transport, silenceMs: number = STREAM_SILENCE_MS) {
    this.#transport = transport;
    this.#silenceMs = silenceMs;
  }

  /** Starts a session, or opens the one with this `key`. Plugins receive `sessionStarted` of a new one. */
  async start({ tools, ...fields }: NewSession, { signal }: Cancellable = {}): Promise<Session> {
    const body = { ...fields, ...(tools ? { tools: describeTools(tools) } : {}) };
    // The same key opens the same session.
    const repeatable = typeof fields.key === 'string';
    const call = { method: 'POST' as const, path: '/sessions', body, signal, repeatable };
    const record = await this.#transport.json<SessionRecord>(call);
    const session = new Session(this.#transport, record.id, record);
    session.performTools(tools ?? []);
    return session;
  }

  /**
   * Returns an existing session by its id, without a request.
   *
   * @param options.onCall gets every call of the session, its turns and its services before it is sent
   */
  open(id: string, { onCall }: { readonly onCall?: (call: Call) => void } = {}): Session {
    return new Session(onCall ? this.#transport.withObserver(onCall) : this.#transport, id, null);
  }

  /** Lists the sessions of the account. */
  list({ signal, ...query }: Paged = {}): Promise<Page<SessionRecord>> {
    return this.#transport.json({ method: 'GET', path: `/sessions${toQueryString(query)}`, signal });
  }

  /**
   * Lists the turns that are not over, of messages that arrived without one: of channels, reminders, mail and `append`. In the order of
   * the messages. Another runtime may hold them.
   */
  turns({ signal, ...query }: Paged & { readonly agentId?: string | undefined } = {}): Promise<Page<TurnRecord>> {
    return this.#transport.json({ method: 'GET', path: `/sessions/turns${toQueryString(query)}`, signal });
  }

  /**
   * Yields what is added to the account's transcripts until the signal aborts. Reconnects after the last position, so
   * nothing is missed or repeated, however long the service is away.
   *
   * @param after the `position` to continue from; without it, starts with the next message
   */
  added({ after, signal, ...filter }: EventFilter & { after?: string } & Cancellable = {}): AsyncGenerator<Added> {
    return this.#follow<Added>(filter, after, signal);
  }

  /** Like `added`, and also yields when a session is cleared or deleted and when its tools change. */
  events({
    after,
    signal,
    ...filter
  }: EventFilter & { after?: string } & Cancellable = {}): AsyncGenerator<SessionEvent> {
    return this.#follow<SessionEvent>({ ...filter, changes: 'true' }, after, signal);
  }

  /**
   * Yields the messages of channels, reminders, mail and `append` that wait for an answer, oldest first, and then new ones until
   * the signal aborts. Open a turn with the id of each, one after another. After a restart, messages whose turns were not ended
   * come again. Reconnects, however long the service is away.
   */
  async *inbox({ signal, ...filter }: EventFilter & Cancellable = {}): AsyncGenerator<{
    readonly session: Session;
    readonly message: TranscriptMessage;
  }> {
    for (let wasOpen = false; ; ) {
      try {
        const stream = { method: 'GET' as const, path: `/sessions/stream${toQueryString({ ...filter })}`, signal };
        // Opens the stream before it reads the list, so that no message falls between them.
        const { body } = await this.#transport.open(stream);
        wasOpen = true;
        yield* this.#readInbox(body, filter, signal);
      } catch (error) {
        if (!wasOpen || !isOutage(error)) throw error;
      }
      await pause(STREAM_PAUSE_MS * Math.random(), signal);
    }
  }

  /** Yields the messages that wait, and then those of the stream until it ends. */
  async *#readInbox(
    body: ReadableStream<Uint8Array> | null,
    filter: EventFilter,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<{ readonly session: Session; readonly message: TranscriptMessage }> {
    const listed = new Set<string>();
    try {
      for await (const { sessionId, message } of this.#listWaiting(filter, signal)) {
        listed.add(toKey(sessionId, message));
        yield { session: this.open(sessionId), message };
      }
      for await (const { sessionId, message } of readMessages(body, this.#silenceMs, signal))
        if (isWaiting(message) && !listed.has(toKey(sessionId, message)))
          yield { session: this.open(sessionId), message };
    } finally {
      // Fails if `readMessages` has read the stream, and then it has closed it already.
      await body?.cancel().catch(() => undefined);
    }
  }

  #listWaiting(filter: EventFilter, signal: AbortSignal | undefined): AsyncGenerator<WaitingMessage> {
    return readPages(({ cursor }) => {
      const path = `/sessions/unanswered${toQueryString({ ...filter, cursor })}`;
      return this.#transport.json({ method: 'GET', path, signal });
    });
  }

  async *#follow<Event>(
    query: Readonly<Record<string, string | undefined>>,
    after: string | undefined,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Event> {
    const path = `/sessions/stream${toQueryString(query)}`;
    let wasOpen = false;
    const open = async (lastId: string | undefined) => {
      const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId };
      const { body } = await this.#transport.open({ method: 'GET', path, headers, signal });
      wasOpen = true;
      return body;
    };
    // A wrong address shows at the start, where the transport has retried already.
    const isRetryable = (error: unknown) => wasOpen && isOutage(error);
    for await (const { id, type, data } of followEvents({
      open,
      after,
      isRetryable,
      pauseMs: STREAM_PAUSE_MS,
      silenceMs: this.#silenceMs,
      signal,
    })) {
      yield { ...JSON.parse(data), type, position: id };
    }
  }
}

export class Session {
  readonly id: string;
  /** The session as `start` returned it; null after `open`. */
  readonly record: SessionRecord | null;
  /** To-dos, reminders, mail between agents and SSH commands. */
  readonly services: HostServices;
  readonly #transport: Transport;
  readonly #ownTools = new OwnTools();

  constructor(transport: Transport, id: string, record: SessionRecord | null) {
    this.#transport = transport;
    this.services = new HostServices(transport, id);
    this.id = id;
    this.record = record;
  }

  /** Returns the current state of the session. */
  look({ signal }: Cancellable = {}): Promise<SessionRecord> {
    return this.#get('', signal);
  }

  /**
   * Runs a hook of the account's plugins. If `action` is `cancel`, do not continue with the operation.
   *
   * @param name such as `systemPrompt` or `inboundMessage`
   * @param trigger what started the operation. Default: `user` for these two, `agent` for all others
   */
  hook<Name extends HookName>(
    name: Name,
    context: HookContext<Name>,
    { trigger, signal }: { trigger?: Trigger } & Cancellable = {},
  ): Promise<HookAnswer<Name>> {
    // Safe to repeat: the runtime uses only one of the answers.
    return this.#post(`/hooks/${name}`, { context, ...(trigger ? { trigger } : {}) }, signal, true);
  }

  /** Lists the plugins that each hook runs now. */
  async hooks({ signal }: Cancellable = {}): Promise<readonly HookLink[]> {
    return (await this.#get<Page<HookLink>>('/hooks', signal)).items;
  }

  /** Lists how often each hook ran for this session, and how many of its messages were judged. */
  async coverage({ signal }: Cancellable = {}): Promise<readonly HookCoverage[]> {
    return (await this.#get<{ readonly coverage: readonly HookCoverage[] }>('/hooks', signal)).coverage;
  }

  /** Asks a plugin to summarize. If `source` is `builtin`, the runtime must summarize itself. */
  compact(
    request: { messages?: readonly TranscriptMessage[]; focus?: string | null } = {},
    { signal }: Cancellable = {},
  ): Promise<Summary> {
    return this.#post('/compaction', request, signal, true);
  }

  /** Adds messages to the transcript that `host.session` and compaction read. Idempotent by message id. */
  append(messages: readonly NewMessage[], { signal }: Cancellable = {}): Promise<Page<TranscriptMessage>> {
    return this.#post('/messages', { messages: messages.map(addId) }, signal, true);
  }

  /** Lists the messages of the transcript, oldest first unless `order` says otherwise. */
  messages({
    signal,
    ...query
  }: { readonly order?: 'oldest' | 'newest' } & Paged = {}): Promise<Page<TranscriptMessage>> {
    return this.#get(`/messages${toQueryString(query)}`, signal);
  }

  /** Keeps a file with the session, for `mediaId` of attachments. Equal bytes have the same id. */
  putMedia(
    { data, ...file }: { readonly data: Uint8Array | string; readonly name?: string },
    { signal }: Cancellable = {},
  ): Promise<MediaFile> {
    return this.#post('/media', { ...file, data: typeof data === 'string' ? data : encodeBase64(data) }, signal, true);
  }

  /** Returns the bytes of a media file of the account. */
  readMedia(mediaId: string, { signal }: Cancellable = {}): Promise<Uint8Array> {
    return this.#transport.bytes({ method: 'GET', path: `/media/${encodeURIComponent(mediaId)}`, signal });
  }

  /** Sends an agent's reply to the channel of the session. Idempotent by `id`. */
  reply(
    text: string,
    { id = crypto.randomUUID(), signal }: { id?: string } & Cancellable = {},
  ): Promise<{ id: string }> {
    return this.#post('/replies', { id, text }, signal, true);
  }

  /**
   * Opens a turn: the plugins judge the message, and it is added to the transcript. A repeated request with the same id returns
   * the same turn.
   *
   * @throws BulkheadError `turn_held` while another runtime has it
   */
  async openTurn(turn: NewTurn, { signal }: Cancellable = {}): Promise<Turn> {
    const record = await this.#post<OpenedTurn>('/turns', addId(turn), signal, true);
    return new Turn(this.#transport, this.#ownTools, this.id, record.id, record);
  }

  /** Returns a turn by its id, without a request. */
  turn(id: string): Turn {
    return new Turn(this.#transport, this.#ownTools, this.id, id, null);
  }

  /** Lists the turns of the session, oldest first unless `order` says otherwise. */
  turns({
    signal,
    ...query
  }: { readonly state?: TurnRecord['state']; readonly order?: 'oldest' | 'newest' } & Paged = {}): Promise<
    Page<TurnRecord>
  > {
    return this.#get(`/turns${toQueryString(query)}`, signal);
  }

  /**
   * Chooses which of the host's tools and of your own the session offers; a list that is left out stays as it is. `turn.call`
   * performs your tools with their `run`. Returns all tools.
   */
  async offerTools(
    { tools, ...offer }: { readonly hostTools?: readonly HostToolGroup[]; readonly tools?: readonly OwnTool[] },
    { signal }: Cancellable = {},
  ): Promise<readonly Tool[]> {
    this.performTools(tools ?? []);
    const body = { ...offer, ...(tools ? { tools: describeTools(tools) } : {}) };
    const request = { method: 'PUT' as const, path: this.#path('/tools'), body, signal, repeatable: true };
    return (await this.#transport.json<Page<Tool>>(request)).items;
  }

  /** Gives `turn.call` the functions of tools, without a request: after `client.open(id)` of a session that lists them. */
  performTools(tools: readonly OwnTool[]): void {
    this.#ownTools.add(tools);
  }

  /** Whether `turn.call` has a function for this tool of yours. */
  canPerform(name: string): boolean {
    return this.#ownTools.has(name);
  }

  async tools({ signal }: Cancellable = {}): Promise<readonly Tool[]> {
    return (await this.#get<Page<Tool>>('/tools', signal)).items;
  }

  /**
   * Calls a tool. A tool that fails returns a result with `isError` for the model to read. The handler sees the `callId`.
   * A repeated call runs the handler again; a call of a turn runs once per id. Aborting the signal aborts the call.
   *
   * @throws BulkheadError `invalid_arguments` with the fields that are wrong; ConnectionLostError if the tool may have run
   */
  callTool(
    name: string,
    args: unknown,
    { callId, signal }: { callId?: string } & Cancellable = {},
  ): Promise<ToolResult> {
    const body = { arguments: args, ...(callId ? { callId } : {}) };
    return this.#post(`/tools/${encodeURIComponent(name)}`, body, signal);
  }

  async commands({ signal }: Cancellable = {}): Promise<readonly Command[]> {
    return (await this.#get<Page<Command>>('/commands', signal)).items;
  }

  /** Runs a command and returns its text. */
  async runCommand(name: string, input = '', { signal }: Cancellable = {}): Promise<string> {
    return (await this.#post<{ text: string }>(`/commands/${encodeURIComponent(name)}`, { input }, signal)).text;
  }

  async skills({ signal }: Cancellable = {}): Promise<readonly Skill[]> {
    return (await this.#get<Page<Skill>>('/skills', signal)).items;
  }

  readSkill(name: string, { signal }: Cancellable = {}): Promise<SkillText> {
    return this.#get(`/skills/${encodeURIComponent(name)}`, signal);
  }

  async providers({ signal }: Cancellable = {}): Promise<readonly Provider[]> {
    return (await this.#get<Page<Provider>>('/providers', signal)).items;
  }

  /** Completes a request with a model of a plugin's provider. */
  complete(provider: string, request: CompletionRequest, { signal }: Cancellable = {}): Promise<Completion> {
    return this.#post(`/providers/${encodeURIComponent(provider)}`, { request }, signal);
  }

  /**
   * Like `complete`, but yields the pieces of the text as they come, and returns the whole answer. Ending the generator aborts the
   * call.
   *
   * @throws BulkheadError, also after some pieces; ConnectionLostError if the answer breaks off
   */
  async *streamCompletion(
    provider: string,
    request: CompletionRequest,
    { signal }: Cancellable = {},
  ): AsyncGenerator<string, Completion> {
    const path = this.#path(`/providers/${encodeURIComponent(provider)}`);
    const { body } = await this.#transport.open({ method: 'POST', path, body: { request, stream: true }, signal });
    const events = readEvents(body);
    try {
      for (;;) {
        const { done, value } = await events.next().catch((cause: unknown) => {
          signal?.throwIfAborted();
          throw new ConnectionLostError(`The answer of ${provider} broke off.`, { cause });
        });
        if (done) throw new ConnectionLostError(`The answer of ${provider} broke off.`);
        // A comment, such as a heartbeat.
        if (value.data === '') continue;
        const content = JSON.parse(value.data);
        if (value.type === 'answer') return content;
        if (value.type === 'problem') throw new BulkheadError(content.status, content);
        yield content.text;
      }
    } finally {
      // Closes the request, which aborts the call.
      await events.return(undefined);
    }
  }

  /** Clears the transcript. @throws BulkheadError `cancelled` with the reason of the plugin that cancelled it */
  clear(
    body: { reason?: string; by?: string; trigger?: Trigger } = {},
    { signal }: Cancellable = {},
  ): Promise<SessionRecord> {
    return this.#post('/clear', body, signal);
  }

  async delete({ signal }: Cancellable = {}): Promise<void> {
    await this.#transport.json({ method: 'DELETE', path: this.#path(''), signal });
  }

  #path(suffix: string): string {
    return `/sessions/${encodeURIComponent(this.id)}${suffix}`;
  }

  #get<T>(suffix: string, signal: AbortSignal | undefined): Promise<T> {
    return this.#transport.json({ method: 'GET', path: this.#path(suffix), signal });
  }

  #post<T>(suffix: string, body: unknown, signal: AbortSignal | undefined, repeatable = false): Promise<T> {
    return this.#transport.json({ method: 'POST', path: this.#path(suffix), body, signal, repeatable });
  }
}

/** Yields the messages of one stream until it ends, breaks or falls silent. */
async function* readMessages(
  body: ReadableStream<Uint8Array> | null,
  silenceMs: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Omit<WaitingMessage, 'agentId'>> {
  try {
    for await (const { type, data } of readEvents(body, silenceMs))
      if (type === 'message' && data !== '') yield JSON.parse(data);
  } catch {
    signal?.throwIfAborted();
  }
}

/** Sessions may have messages with the same id. */
const toKey = (sessionId: string, { id }: TranscriptMessage): string => `${sessionId} ${id}`;

/** Whether a message needs a turn: no turn has added it, and no plugin has cancelled it. */
const isWaiting = ({ role, data, judgement }: TranscriptMessage): boolean =>
  role === 'user' && data?.turnId === undefined && judgement?.outcome !== 'cancelled';
