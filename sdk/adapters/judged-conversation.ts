/**
 * One agent's conversation, judged, for all adapters. Each message of a user opens a turn of the session, the model gets the
 * messages as the plugins let them pass, and no text of the model leaves before it is judged.
 */
import type { Session, ToolResult, Trigger, Turn, TurnRecord } from '../session/session.ts';
import { JudgedAnswer, toStorable } from './judged-answer.ts';
import { VetoError } from './veto-error.ts';

export interface AdapterOptions {
  /**
   * The id of the message that the next run answers. Pass the id of a channel's message, which was judged when it came, or an
   * id of yours: the same id is judged once, however often it is sent.
   */
  readonly messageId?: string;
  /** The sender of messages to the agent, as plugins see it. Default: `user`. */
  readonly from?: string;
  /** What starts the agent's turns, as plugins see it. Default: `user`. */
  readonly trigger?: Trigger;
  /** The recipient of the agent's messages, as plugins see it. Default: `user`. */
  readonly target?: string;
  /** Number of messages after which a plugin summarizes the conversation. Default: never. */
  readonly compactAfter?: number;
  /** Number of recent messages that the summary does not replace. Default: 4. */
  readonly keep?: number;
}

/** How an adapter reads and writes the messages of its framework. System prompts are not among them. */
export interface MessageFormat<Message> {
  /** The text of a user's message; null for messages of the agent and of tools. */
  readUserText(message: Message): string | null;
  replaceText(message: Message, text: string): Message;
  /** The result of a tool that the framework itself called; null for other messages. */
  readToolResult(message: Message): { readonly callId: string; readonly name: string; readonly text: string }[];
}

interface ModelRequest<Message> {
  readonly systemPrompt: string;
  readonly model: string;
  readonly messages: readonly Message[];
  readonly signal?: AbortSignal | undefined;
}

/** What to ask the model, and what judges its answer. */
export interface PreparedRequest<Message> {
  readonly systemPrompt: string;
  readonly messages: Message[];
  readonly answer: JudgedAnswer;
}

/** A message of a user that this session knows. */
interface KnownMessage {
  readonly turn: Turn;
  /** Of the text as it was sent. Empty: only the service's id and text identify it. */
  readonly digest: string;
  state: TurnRecord['state'];
  /** As the plugins let it pass. */
  text: string | null;
}

const DIGEST_CHARS = 16;
const MODEL_MAX_CHARS = 200;
const PAGE_SIZE = 100;

const conversations = new WeakMap<Session, Conversation>();

/** The conversation of a session, shared by its model and its tools. */
export function openConversation(session: Session): Conversation {
  const known = conversations.get(session);
  if (known) return known;
  const conversation = new Conversation(session);
  conversations.set(session, conversation);
  return conversation;
}

export class Conversation {
  readonly session: Session;
  /** Messages of users, oldest first. */
  #known: KnownMessage[] = [];
  #isLoaded: boolean;
  /** One request opens turns at a time, so that two runs at once do not open one twice. */
  #opening: Promise<unknown> = Promise.resolve();
  /** Which turn made a call, and under which id it goes to the service. */
  readonly #calls = new Map<string, { readonly turn: Turn; readonly id: string }>();
  /** How often each call's id was used in a turn: some models number the calls of each answer from zero. */
  readonly #uses = new Map<string, number>();
  readonly #recorded = new Set<string>();

  constructor(session: Session) {
    this.session = session;
    // A session that was started here has no messages yet; one with a key may have been started before.
    this.#isLoaded = session.record !== null && session.record.key === null;
  }

  /**
   * Judges the new messages of the user, and returns what the model may be asked.
   *
   * @throws VetoError before the model was asked
   */
  async prepare<Message>(
    request: ModelRequest<Message>,
    format: MessageFormat<Message>,
    options: AdapterOptions,
  ): Promise<PreparedRequest<Message>> {
    const opening = this.#opening.then(() => this.#openTurns(request, format, options));
    this.#opening = opening.catch(() => undefined);
    const knownByIndex = await opening;
    const { turn } = knownByIndex.findLast((one) => one !== null) ?? {};
    if (!turn) throw new Error('The model needs a message of the user, because plugins judge the answer to a message.');
    const { messages, systemPrompt, signal } = request;
    await this.#recordResults(turn, messages, knownByIndex, format, signal);
    const { compactAfter, keep } = options;
    const prompt = await turn.prompt({
      model: request.model.slice(0, MODEL_MAX_CHARS),
      ...(systemPrompt === '' ? {} : { systemPrompt }),
      ...(compactAfter === undefined ? {} : { compactAfter }),
      ...(keep === undefined ? {} : { keep }),
      ...(signal ? { signal } : {}),
    });
    if (prompt.action === 'cancel') throw new VetoError(prompt.cancelledBy, prompt.reason, prompt.isFinal);
    const [head] = prompt.messages;
    const summary = head?.data?.kind === 'summary' ? head.text : null;
    const from = summary === null ? 0 : findFirstUncovered(knownByIndex, prompt.messages.slice(1));
    const judged = messages.flatMap((message, index) => {
      if (index < from) return [];
      const own = knownByIndex[index];
      if (!own) return [message];
      if (own.text === null) return [];
      return [own.text === format.readUserText(message) ? message : format.replaceText(message, own.text)];
    });
    const answer = new JudgedAnswer({
      turn,
      outbound: prompt.outbound,
      target: options.target,
      signal,
      onCall: (callId) => this.#noteCall(turn, callId),
      onEnd: () => this.#endTurn(turn),
    });
    return {
      systemPrompt: [prompt.systemPrompt, summary ?? ''].filter((part) => part !== '').join('\n\n'),
      messages: judged,
      answer,
    };
  }

  /** Calls a tool in the turn whose model asked for it. */
  async callTool(
    name: string,
    args: unknown,
    { callId, signal }: { callId?: string | undefined; signal?: AbortSignal | undefined },
  ): Promise<ToolResult> {
    const abort = signal ? { signal } : {};
    const call = callId === undefined ? undefined : (this.#calls.get(callId) ?? (await this.#findOpenCall(callId)));
    if (!call) return this.session.callTool(name, args, { ...(callId ? { callId } : {}), ...abort });
    return call.turn.call(call.id, name, args as never, abort);
  }

  /** A framework that goes on after a restart calls tools before it asks the model. */
  async #findOpenCall(callId: string): Promise<{ turn: Turn; id: string } | undefined> {
    await this.#load();
    const open = this.#known.findLast(({ state }) => state === 'open');
    return open && { turn: open.turn, id: callId };
  }

  #noteCall(turn: Turn, callId: string): string {
    const use = `${turn.id} ${callId}`;
    const uses = (this.#uses.get(use) ?? 0) + 1;
    this.#uses.set(use, uses);
    const id = uses === 1 ? callId : `${callId}~${uses}`;
    const call = { turn, id };
    // Frameworks know it by either, as their adapter tells them.
    this.#calls.set(callId, call).set(id, call);
    return id;
  }

  async #endTurn(turn: Turn): Promise<void> {
    await turn.end();
    const known = this.#known.find((one) => one.turn.id === turn.id);
    if (known) known.state = 'ended';
    for (const [callId, call] of this.#calls) if (call.turn === turn) this.#calls.delete(callId);
  }

  /** Adds the results of tools that the framework itself called to the transcript. */
  async #recordResults<Message>(
    turn: Turn,
    messages: readonly Message[],
    knownByIndex: readonly (KnownMessage | null)[],
    format: MessageFormat<Message>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const last = knownByIndex.findLastIndex((one) => one !== null);
    const results = messages
      .slice(last + 1)
      .flatMap((message) => format.readToolResult(message))
      .filter(({ callId }) => this.#calls.has(callId) && !this.#recorded.has(`${turn.id}:${callId}`));
    if (results.length === 0) return;
    const { calls } = await turn.look(signal ? { signal } : {});
    const own = results.filter(({ callId }) => !calls.some((call) => call.callId === this.#calls.get(callId)?.id));
    if (own.length > 0)
      await this.session.append(
        own.map(({ callId, name, text }) => ({
          id: `${turn.id}:${this.#calls.get(callId)?.id ?? callId}`.slice(0, MODEL_MAX_CHARS),
          role: 'tool' as const,
          text: toStorable(text),
          data: { turnId: turn.id, callId, tool: name },
        })),
        signal ? { signal } : {},
      );
    for (const { callId } of results) this.#recorded.add(`${turn.id}:${callId}`);
  }

  /** Finds the turn of each message of a user, and opens one for each that is new. Null for other messages. */
  async #openTurns<Message>(
    { messages, systemPrompt, model, signal }: ModelRequest<Message>,
    format: MessageFormat<Message>,
    options: AdapterOptions,
  ): Promise<(KnownMessage | null)[]> {
    const texts = messages.map((message) => format.readUserText(message));
    const digests = await Promise.all(texts.map((text) => (text === null ? null : digestText(text))));
    const lastReply = texts.lastIndexOf(null);
    const { messageId } = options;
    if (digests.filter((digest) => digest !== null).length > 1 || lastReply >= 0 || messageId !== undefined)
      await this.#load(signal);
    const knownByIndex = this.#match(texts, digests, lastReply, messageId);
    const last = texts.findLastIndex((text) => text !== null);
    for (const [index, text] of texts.entries()) {
      const digest = digests[index];
      const known = knownByIndex[index];
      if (text === null || typeof digest !== 'string') continue;
      if (known && known.state !== 'judging') continue;
      const id = known?.turn.id ?? (index === last && messageId) ?? '';
      const opened = await this.#open(
        id === '' || id === false ? `${digest}.${crypto.randomUUID()}` : id,
        text,
        digest,
        {
          ...options,
          systemPrompt,
          model,
          signal,
        },
      );
      knownByIndex[index] = opened;
      // Whatever comes before the last message was answered elsewhere.
      if (index < last && opened.state === 'open') await this.#endTurn(opened.turn);
    }
    const current = knownByIndex[last];
    if (current?.state === 'vetoed') {
      const { turn } = await current.turn.look(signal ? { signal } : {});
      throw new VetoError(turn.cancelledBy, turn.reason);
    }
    await this.#endEarlier(knownByIndex, last);
    return knownByIndex;
  }

  /** A new message ends the turns before it that the framework left, such as one that was aborted. */
  async #endEarlier(knownByIndex: readonly (KnownMessage | null)[], last: number): Promise<void> {
    for (const one of knownByIndex.slice(0, Math.max(last, 0)))
      if (one?.state === 'open') await this.#endTurn(one.turn);
  }

  async #open(
    id: string,
    text: string,
    digest: string,
    { from, trigger = 'user', systemPrompt, model, signal }: AdapterOptions & Omit<ModelRequest<never>, 'messages'>,
  ): Promise<KnownMessage> {
    const turn = await this.session.openTurn(
      {
        id,
        text: toStorable(text),
        trigger,
        model: model.slice(0, MODEL_MAX_CHARS),
        ...(from === undefined ? {} : { from }),
        ...(systemPrompt === '' ? {} : { systemPrompt }),
      },
      signal ? { signal } : {},
    );
    const { record } = turn;
    const state = record?.state ?? 'open';
    const opened = { turn, digest, state, text: record?.message?.text ?? null };
    const at = this.#known.findIndex((one) => one.turn.id === id);
    if (at < 0) this.#known.push(opened);
    else this.#known[at] = opened;
    if (record?.action === 'cancel' && !record.isFinal) throw new VetoError(record.cancelledBy, record.reason, false);
    return opened;
  }

  /**
   * Finds messages among those that the session knows, from the last one back. What was answered and comes again without its
   * answer is said again.
   */
  #match(
    texts: readonly (string | null)[],
    digests: readonly (string | null)[],
    lastReply: number,
    messageId: string | undefined,
  ): (KnownMessage | null)[] {
    const knownByIndex: (KnownMessage | null)[] = texts.map(() => null);
    const last = texts.findLastIndex((text) => text !== null);
    let before = this.#known.length;
    for (let index = last; index >= 0; index -= 1) {
      const text = texts[index];
      const digest = digests[index];
      if (typeof text !== 'string' || typeof digest !== 'string') continue;
      const isSame = (known: KnownMessage): boolean => {
        if (index === last && messageId !== undefined) return known.turn.id === messageId;
        const isText = known.digest === digest || known.turn.id.startsWith(`${digest}.`) || known.text === text;
        if (!isText) return false;
        if (index < lastReply) return true;
        return index === last ? known.state === 'open' || known.state === 'judging' : known.state !== 'ended';
      };
      const at = this.#known.slice(0, before).findLastIndex(isSame);
      if (at < 0) continue;
      const known = this.#known[at];
      knownByIndex[index] = known ?? null;
      // A message that comes again after its answer may be among the earlier ones, too.
      if (index !== last || known?.state === 'open' || known?.state === 'judging') before = at;
    }
    return knownByIndex;
  }

  /** Reads the messages that the session knows already, once. */
  async #load(signal?: AbortSignal): Promise<void> {
    if (this.#isLoaded) return;
    const known: KnownMessage[] = [];
    let cursor: string | null = null;
    do {
      const query: { limit: number; cursor?: string; signal?: AbortSignal } = {
        limit: PAGE_SIZE,
        ...(cursor === null ? {} : { cursor }),
        ...(signal ? { signal } : {}),
      };
      const page = await this.session.turns(query);
      for (const { id, state, message } of page.items)
        if (state !== 'cleared')
          known.push({ turn: this.session.turn(id), digest: '', state, text: message?.text ?? null });
      cursor = page.nextCursor;
    } while (cursor !== null);
    this.#known = [...known, ...this.#known.filter(({ turn }) => !known.some((one) => one.turn.id === turn.id))];
    this.#isLoaded = true;
  }
}

/** The first message that a summary does not cover: of a turn that it covers in part, the user's. */
function findFirstUncovered(
  knownByIndex: readonly (KnownMessage | null)[],
  after: readonly { readonly id: string; readonly role: string; readonly data?: unknown }[],
): number {
  const last = knownByIndex.findLastIndex((one) => one !== null);
  const [first] = after;
  const turnId = first?.role === 'user' ? first.id : (first?.data as { turnId?: unknown } | undefined)?.turnId;
  const index = knownByIndex.findIndex((one) => one?.turn.id === turnId);
  return index < 0 ? last : index;
}

async function digestText(text: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return [...bytes.slice(0, DIGEST_CHARS / 2)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

type ContentPart = ToolResult['content'][number];

/** Formats a part that is no image for a model. */
export const formatPart = (part: Exclude<ContentPart, { type: 'image' }>): string =>
  part.type === 'text' ? part.text : JSON.stringify(part.json);

/** Formats a tool result for a model: text parts as they are, other parts as JSON. */
export const formatToolResult = ({ content }: ToolResult): string =>
  content.map((part) => (part.type === 'text' ? part.text : JSON.stringify(part))).join('\n');
