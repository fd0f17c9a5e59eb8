/**
 * The agent runtime's client of the session API: `connect(…)`, then a session, then its hooks, tools and the rest. Calls
 * that may be repeated are, through restarts and deploys of the service; it needs `fetch` and nothing else.
 */
import type {
  Added,
  Command,
  Completion,
  CompletionRequest,
  HookAnswer,
  HookContext,
  HookName,
  NewMessage,
  NewSession,
  Page,
  Provider,
  SessionRecord,
  Skill,
  SkillText,
  Summary,
  Tool,
  ToolResult,
  TranscriptMessage,
  Trigger,
} from './answers.ts';
import { readEvents } from './event-stream.ts';
import { pauseFor, Transport, type TransportOptions } from './transport.ts';

/** Between two streams, milliseconds: the service's own `retry:` is this long. */
const STREAM_PAUSE_MS = 2_000;

interface Cancellable {
  readonly signal?: AbortSignal;
}
interface Paged extends Cancellable {
  readonly limit?: number;
  readonly cursor?: string;
}

/** @param options address and token */
export function connect(options: TransportOptions): SessionClient {
  return new SessionClient(new Transport(options));
}

export class SessionClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Starts a session; every plugin that listens is told. */
  async start(body: NewSession, { signal }: Cancellable = {}): Promise<Session> {
    const made = await this.#transport.json<SessionRecord>({ method: 'POST', path: '/sessions', body, signal });
    return new Session(this.#transport, made.id, made);
  }

  /** A session that was started before, by its id; nothing is asked yet. */
  open(id: string): Session {
    return new Session(this.#transport, id, null);
  }

  list({ signal, ...query }: Paged = {}): Promise<Page<SessionRecord>> {
    return this.#transport.json({ method: 'GET', path: `/sessions${queryOf(query)}`, signal });
  }

  /**
   * What is added to the account's transcripts, for ever: a stream that ends or breaks is opened again where it was, and
   * nothing is missed or told twice.
   *
   * @param after the `position` to go on from; without it, what comes next
   */
  async *added({ after, signal }: { after?: string } & Cancellable = {}): AsyncGenerator<Added> {
    for (let position = after; ; ) {
      const headers: Record<string, string> = position === undefined ? {} : { 'last-event-id': position };
      const response = await this.#transport.open({ method: 'GET', path: '/sessions/stream', headers, signal });
      try {
        for await (const { id, type, data } of readEvents(response.body ?? new ReadableStream())) {
          position = id;
          if (data !== '') yield { ...JSON.parse(data), type, position: id };
        }
      } catch {
        // A broken stream goes on where it was. What the caller's loop throws does not come here.
        signal?.throwIfAborted();
      }
      await pauseFor(STREAM_PAUSE_MS * Math.random(), signal);
    }
  }
}

export class Session {
  readonly id: string;
  /** As it was when it was started here; null when only its id was given. */
  readonly record: SessionRecord | null;
  readonly #transport: Transport;

  constructor(transport: Transport, id: string, record: SessionRecord | null) {
    this.#transport = transport;
    this.id = id;
    this.record = record;
  }

  /** How it is now. */
  look({ signal }: Cancellable = {}): Promise<SessionRecord> {
    return this.#get('', signal);
  }

  /**
   * Passes an operation through the account's plugins. With `action: 'cancel'` do not go on with it.
   *
   * @param name such as `systemPrompt` or `inboundMessage`
   */
  hook<Name extends HookName>(
    name: Name,
    context: HookContext<Name>,
    { trigger, signal }: { trigger?: Trigger } & Cancellable = {},
  ): Promise<HookAnswer<Name>> {
    // Twice is as good as once: a hook answers about a context, and the runtime takes one of the answers.
    return this.#post(`/hooks/${name}`, { context, ...(trigger ? { trigger } : {}) }, signal, true);
  }

  /** Has a plugin summarize; `source: 'builtin'` means that the runtime does it itself. */
  compact(
    of: { messages?: readonly TranscriptMessage[]; focus?: string | null } = {},
    { signal }: Cancellable = {},
  ): Promise<Summary> {
    return this.#post('/compaction', of, signal, true);
  }

  /** Adds to the transcript, which `host.session` and compaction see. Repeats add nothing twice. */
  append(messages: readonly NewMessage[], { signal }: Cancellable = {}): Promise<Page<TranscriptMessage>> {
    const named = messages.map((message) => ({ id: crypto.randomUUID(), ...message }));
    return this.#post('/messages', { messages: named }, signal, true);
  }

  messages({ signal, ...query }: Paged = {}): Promise<Page<TranscriptMessage>> {
    return this.#get(`/messages${queryOf(query)}`, signal);
  }

  /** Sends an agent's answer to the channel this session is a conversation of. Repeats send nothing twice. */
  reply(
    text: string,
    { id = crypto.randomUUID(), signal }: { id?: string } & Cancellable = {},
  ): Promise<{ id: string }> {
    return this.#post('/replies', { id, text }, signal, true);
  }

  async tools({ signal }: Cancellable = {}): Promise<readonly Tool[]> {
    return (await this.#get<Page<Tool>>('/tools', signal)).items;
  }

  /**
   * Calls a tool. A tool that fails answers with `isError`, for the model to read.
   *
   * @throws BulkheadError `invalid_arguments` with the fields that are wrong; ConnectionLostError when it may have run
   */
  callTool(
    name: string,
    args: unknown,
    { callId, signal }: { callId?: string } & Cancellable = {},
  ): Promise<ToolResult> {
    return this.#post(`/tools/${encodeURIComponent(name)}`, { arguments: args, ...(callId ? { callId } : {}) }, signal);
  }

  async commands({ signal }: Cancellable = {}): Promise<readonly Command[]> {
    return (await this.#get<Page<Command>>('/commands', signal)).items;
  }

  /** The text that a command makes of its input. */
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

  /** Asks a model of a plugin's provider. */
  complete(provider: string, request: CompletionRequest, { signal }: Cancellable = {}): Promise<Completion> {
    return this.#post(`/providers/${encodeURIComponent(provider)}`, { request }, signal);
  }

  /** Clears the transcript, unless a plugin stops it. @throws BulkheadError `cancelled` with the plugin's reason */
  clear(body: { reason?: string; by?: string } = {}, { signal }: Cancellable = {}): Promise<SessionRecord> {
    return this.#post('/clear', body, signal);
  }

  async delete({ signal }: Cancellable = {}): Promise<void> {
    await this.#transport.json({ method: 'DELETE', path: this.#path(''), signal });
  }

  #path(below: string): string {
    return `/sessions/${encodeURIComponent(this.id)}${below}`;
  }

  #get<T>(below: string, signal: AbortSignal | undefined): Promise<T> {
    return this.#transport.json({ method: 'GET', path: this.#path(below), signal });
  }

  #post<T>(below: string, body: unknown, signal: AbortSignal | undefined, repeatable = false): Promise<T> {
    return this.#transport.json({ method: 'POST', path: this.#path(below), body, signal, repeatable });
  }
}

function queryOf(query: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
}
