/** Answers what comes to an account's sessions by themselves: messages of channels, due reminders, mail of other agents. */
import type { Added, TranscriptMessage, Trigger } from './api-types.ts';
import { connect, type Session, type SessionClient } from './client.ts';
import { BulkheadError } from './transport.ts';

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
export type ServedAgent = (
  message: ServedMessage,
  context: { readonly session: Session; readonly signal: AbortSignal },
  // biome-ignore lint/suspicious/noConfusingVoidType: an agent whose adapter ended the turn returns nothing
) => Promise<string | void> | AsyncIterable<string>;

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
  /** Ends when it aborts, also the answers that run. */
  readonly signal?: AbortSignal;
  /** A position that `onPosition` was told: goes on after it. Default: with the next message, and with turns that are open. */
  readonly after?: string;
  /** Called when a message was answered. Keep the position to answer what comes while no process runs. */
  readonly onPosition?: (position: string) => void;
  /** Called when an answer failed. Default: the process fails. Other messages are answered meanwhile. */
  readonly onError?: (error: unknown, message: ServedMessage) => void;
}

const DEFAULT_URL = 'http://localhost:4010';
const TRIGGERS: Readonly<Record<string, Trigger>> = { reminder: 'schedule', agent_message: 'agent' };

/**
 * Answers messages until the signal aborts: those of one session in their order, sessions at the same time. Of several
 * processes, the one that holds a message's turn answers it.
 *
 * @throws the first error of an agent, without `onError`; BulkheadError if the stream of messages is refused
 */
export async function serve(agent: ServedAgent, options: ServeOptions): Promise<void> {
  await new Service(agent, options).run();
}

class Service {
  readonly #agent: ServedAgent;
  readonly #options: ServeOptions;
  readonly #client: SessionClient;
  readonly #stopped = new AbortController();
  readonly #signal: AbortSignal;
  /** The answers that run, by session: the next message of a session waits. */
  readonly #running = new Map<string, Promise<void>>();
  readonly #isOfChannel = new Map<string, boolean>();
  /** What an agent threw. */
  #failure: unknown = null;

  constructor(agent: ServedAgent, options: ServeOptions) {
    this.#agent = agent;
    this.#options = options;
    this.#client = options.client ?? connectByEnvironment();
    this.#signal = AbortSignal.any([this.#stopped.signal, ...(options.signal ? [options.signal] : [])]);
  }

  async run(): Promise<void> {
    const { agentId, after } = this.#options;
    const filter = agentId === undefined ? {} : { agentId };
    const position = after === undefined ? {} : { after };
    const added = this.#client.added({ ...filter, ...position, signal: this.#signal });
    // The stream is open before what was left is looked for, so that nothing comes between.
    let next = added.next();
    next.catch(() => undefined);
    try {
      await this.#resume();
      for (;;) {
        const { done, value } = await next;
        if (done) break;
        await this.#receive(value);
        next = added.next();
      }
      await Promise.all(this.#running.values());
    } catch (error) {
      if (this.#options.signal?.aborted) return;
      throw this.#failure ?? error;
    } finally {
      this.#stopped.abort();
      await added.return(undefined);
    }
    if (this.#failure !== null) throw this.#failure;
  }

  /** Goes on with turns that a process left open. */
  async #resume(): Promise<void> {
    let cursor: string | null = null;
    do {
      const page = await this.#client.list({ ...(cursor === null ? {} : { cursor }), signal: this.#signal });
      for (const { id, agentId, channelId } of page.items) {
        if (this.#options.agentId !== undefined && agentId !== this.#options.agentId) continue;
        this.#isOfChannel.set(id, channelId !== null);
        const session = this.#client.open(id);
        for (const turn of (await session.turns({ state: 'open', signal: this.#signal })).items) {
          if (!turn.message || !this.#isWanted(turn.trigger)) continue;
          const { text } = turn.message;
          const message: TranscriptMessage = { id: turn.id, role: 'user', text, at: turn.openedAt };
          this.#enqueue(session, { id: turn.id, text, trigger: turn.trigger, message });
        }
      }
      cursor = page.nextCursor;
    } while (cursor !== null);
  }

  async #receive({ sessionId, message, position, type }: Added): Promise<void> {
    if (type !== 'message' || message.role !== 'user') return;
    const trigger = TRIGGERS[String(message.data?.kind)] ?? 'channel';
    if (!this.#isWanted(trigger) || (trigger === 'channel' && !(await this.#hasChannel(sessionId)))) return;
    this.#enqueue(this.#client.open(sessionId), { id: message.id, text: message.text, trigger, message }, position);
  }

  #isWanted(trigger: Trigger): boolean {
    const { channels, reminders, mail } = this.#options;
    return (
      (channels && trigger === 'channel') ||
      (reminders && trigger === 'schedule') ||
      (mail && trigger === 'agent') ||
      false
    );
  }

  async #hasChannel(sessionId: string): Promise<boolean> {
    const known = this.#isOfChannel.get(sessionId);
    if (known !== undefined) return known;
    // A session may be deleted in the meantime.
    const record = await this.#client.open(sessionId).look({ signal: this.#signal }).catch(ignoreMissing);
    this.#isOfChannel.set(sessionId, record !== null && record.channelId !== null);
    return record !== null && record.channelId !== null;
  }

  #enqueue(session: Session, message: ServedMessage, position?: string): void {
    const before = this.#running.get(session.id) ?? Promise.resolve();
    const work = before.then(() => this.#answer(session, message, position));
    this.#running.set(session.id, work);
    void work.then(() => {
      if (this.#running.get(session.id) === work) this.#running.delete(session.id);
    });
  }

  /** Never rejects. */
  async #answer(session: Session, message: ServedMessage, position: string | undefined): Promise<void> {
    if (this.#signal.aborted) return;
    try {
      const turn = session.turn(message.id);
      const known = await turn.look({ signal: this.#signal }).catch(ignoreMissing);
      if (known === null || known.turn.state === 'open') await this.#runAgent(session, message);
      if (position !== undefined) this.#options.onPosition?.(position);
    } catch (error) {
      // Another process has the turn, or the session is gone.
      if (this.#signal.aborted || (error instanceof BulkheadError && OVER.has(error.code))) return;
      if (this.#options.onError) this.#options.onError(error, message);
      else this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#stopped.abort();
  }

  async #runAgent(session: Session, message: ServedMessage): Promise<void> {
    const signal = this.#signal;
    // Before the agent begins: of several processes, only the one that holds the turn asks its model.
    if (!(await this.#holdTurn(session, message))) return;
    const answer = this.#agent(message, { session, signal });
    let text = '';
    if (Symbol.asyncIterator in answer) for await (const piece of answer) text += piece;
    else text = (await answer) ?? '';
    const turn = session.turn(message.id);
    if ((await turn.look({ signal })).turn.state !== 'open') return;
    const { state } = await turn.end(text === '' ? undefined : text, { signal });
    // A plugin stopped the text: the turn ends without one.
    if (state === 'open') await turn.end(undefined, { signal });
  }

  /** False: a plugin cancelled the message, or another process has answered it. @throws BulkheadError `turn_held` */
  async #holdTurn(session: Session, { id, trigger }: ServedMessage): Promise<boolean> {
    try {
      const { record } = await session.openTurn({ id, trigger }, { signal: this.#signal });
      return record?.state === 'open';
    } catch (error) {
      // The agent of an earlier run opened it with other fields. It belongs to this process now.
      if (error instanceof BulkheadError && error.code === 'id_reused') return true;
      throw error;
    }
  }
}

const OVER: ReadonlySet<string> = new Set(['turn_held', 'turn_ended', 'not_found']);

function ignoreMissing(error: unknown): null {
  if (error instanceof BulkheadError && error.status === 404) return null;
  throw error;
}

function connectByEnvironment(): SessionClient {
  const { process } = globalThis as { process?: { env: Readonly<Record<string, string | undefined>> } };
  const { BULKHEAD_URL = DEFAULT_URL, BULKHEAD_TOKEN = '', BULKHEAD_RUNTIME } = process?.env ?? {};
  return connect({
    url: BULKHEAD_URL,
    token: BULKHEAD_TOKEN,
    ...(BULKHEAD_RUNTIME === undefined ? {} : { runtime: BULKHEAD_RUNTIME }),
  });
}
