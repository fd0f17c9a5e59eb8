/** Answers messages that come to an account's sessions: of channels, of due reminders, and mail of other agents. */

import type { Added, SessionRecord, TranscriptMessage, Trigger, TurnRecord } from './api-types.ts';
import { connect, type Session, type SessionClient } from './client.ts';
import { triggersByKind } from './message-kinds.ts';
import { readPages } from './pages.ts';
import { pause } from './pause.ts';
import { BulkheadError, type Call, hasCode, isOutage, isRouteMissing } from './transport.ts';
import type { Turn } from './turn.ts';

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

const DEFAULT_URL = 'http://localhost:4010';
const LEASE_SECONDS = 120;
/** How often a lease is renewed before it would expire. */
const RENEWALS = 3;
/**
 * How often a step is tried again while another process holds its turn, a required plugin does not run, or the service is away: the
 * pause doubles up to the maximum. Milliseconds.
 */
const RETRY_PAUSE_MIN_MS = 500;
const RETRY_PAUSE_MAX_MS = 10_000;

/**
 * `held`: another process answers the message. `stopped`: a required plugin does not run, or the service was away, so this process tries
 * again later.
 */
type Outcome = 'over' | 'held' | 'stopped';

/**
 * Answers messages until the signal aborts: those of one session in their order, sessions at the same time. Of several
 * processes, the one that holds a message's turn answers it, and the others wait with the session's next messages; if it
 * stops, another one continues when the lease has expired. While a required plugin does not run, its messages wait, and while the
 * service is away, all do.
 *
 * @throws the first error of an agent, without `onError`; BulkheadError if the stream of messages is refused; the error of `fetch` if
 * the service cannot be reached at the start
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
  readonly #positions = new Positions();
  /** The sessions whose agent sent a call that may change something outside its message's turn. Each is of one message. */
  readonly #changed = new WeakSet<Session>();
  /** The sessions whose agent sent a call of a tool in its message's turn. */
  readonly #calledTool = new WeakSet<Session>();
  /** The error of an agent. */
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
    // The stream is open before open turns are listed, so that no message falls between them.
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
    const { agentId } = this.#options;
    const turns = readPages((query) =>
      this.#client.turns({ agentId, ...query, signal: this.#signal }).catch(throwOldService),
    );
    for await (const { id, sessionId, trigger, message, openedAt } of turns) {
      if (!this.#isWanted(trigger)) continue;
      // The text of a message that is not judged yet comes when its turn is opened.
      const text = message?.text ?? '';
      const arrived: TranscriptMessage = { id, role: 'user', text, at: openedAt };
      this.#enqueue(sessionId, { id, text, trigger, message: arrived });
    }
  }

  async #receive({ sessionId, message, position, type }: Added): Promise<void> {
    // A message with a turn's id is answered by the runtime that opened its turn with it.
    if (type !== 'message' || message.role !== 'user' || message.data?.turnId !== undefined) return;
    const trigger = triggersByKind[String(message.data?.kind)] ?? 'channel';
    if (!this.#isWanted(trigger) || (trigger === 'channel' && !(await this.#hasChannel(sessionId)))) return;
    this.#enqueue(sessionId, { id: message.id, text: message.text, trigger, message }, position);
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
    const record = await this.#lookUpSession(this.#client.open(sessionId));
    this.#isOfChannel.set(sessionId, record !== null && record.channelId !== null);
    return record !== null && record.channelId !== null;
  }

  /** Null: the session was deleted in the meantime. */
  #lookUpSession(session: Session): Promise<SessionRecord | null> {
    return this.#retryDuringOutage(() => session.look({ signal: this.#signal }).catch(ignoreMissing));
  }

  #enqueue(sessionId: string, message: ServedMessage, position?: string): void {
    if (position !== undefined) this.#positions.add(position);
    const before = this.#running.get(sessionId) ?? Promise.resolve();
    const work = before.then(() => this.#answer(this.#openSession(sessionId, message), message, position));
    this.#running.set(sessionId, work);
    void work.then(() => {
      if (this.#running.get(sessionId) === work) this.#running.delete(sessionId);
    });
  }

  #openSession(sessionId: string, message: ServedMessage): Session {
    const inTurn = `/turns/${encodeURIComponent(message.id)}/`;
    const onCall = ({ method, path }: Call): void => {
      if (method === 'GET' || HARMLESS.test(path)) return;
      if (!path.includes(inTurn)) this.#changed.add(session);
      else if (path.includes(`${inTurn}calls/`)) this.#calledTool.add(session);
    };
    const session = this.#client.open(sessionId, { onCall });
    return session;
  }

  /** Never rejects. */
  async #answer(session: Session, message: ServedMessage, position: string | undefined): Promise<void> {
    try {
      if (this.#signal.aborted) return;
      let unreported = position;
      // The next messages of the session wait also for one that another process answers, to keep their order.
      for (let ms = RETRY_PAUSE_MIN_MS; ; ms = Math.min(2 * ms, RETRY_PAUSE_MAX_MS)) {
        const outcome = await this.#tryToAnswer(session, message);
        if (unreported !== undefined && outcome !== 'stopped') {
          this.#finishPosition(unreported);
          unreported = undefined;
        }
        if (outcome === 'over') return;
        await pause(ms, this.#signal);
      }
    } catch (error) {
      if (!this.#signal.aborted) this.#fail(error);
    }
  }

  #finishPosition(position: string): void {
    const reached = this.#positions.finishPosition(position);
    if (reached !== null) this.#options.onPosition?.(reached);
  }

  /** @throws the error if it ends the service */
  async #tryToAnswer(session: Session, message: ServedMessage): Promise<Outcome> {
    try {
      return await this.#runAgent(session, message);
    } catch (error) {
      if (this.#signal.aborted) throw error;
      const code = error instanceof BulkheadError ? error.code : null;
      if (code === 'turn_held') return 'held';
      if (code === 'turn_ended') return 'over';
      // The session was deleted. The agent may miss something else.
      if (code === 'not_found' && (await this.#lookUpSession(session)) === null) return 'over';
      if (!this.#options.onError) throw error;
      this.#options.onError(error, message);
      return 'over';
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#stopped.abort();
  }

  async #runAgent(session: Session, message: ServedMessage): Promise<Outcome> {
    const signal = this.#signal;
    const turn = session.turn(message.id);
    const known = await this.#retryDuringOutage(() => turn.look({ signal }).catch(ignoreMissing));
    if (known !== null && !UNANSWERED.has(known.turn.state)) return 'over';
    // Before the agent begins: of several processes, only the one that holds the turn asks its model.
    const hold = () => this.#holdTurn(session, message, signal).catch(ignoreClearedMessage);
    const held = await this.#retryDuringOutage(hold);
    if (held?.state === 'judging') return 'stopped';
    if (held?.state !== 'open' || !held.message) return 'over';
    const judged = withJudged(message, held.message);
    return this.#keepLease(session, message, () => this.#answerTurn(session, turn, judged));
  }

  /** Asks the agent and ends the turn with its answer, unless an adapter has ended it. */
  async #answerTurn(session: Session, turn: Turn, message: ServedMessage): Promise<Outcome> {
    const signal = this.#signal;
    let text = '';
    try {
      text = await this.#askAgent(session, message);
    } catch (error) {
      const isPostponed = isVeto(error) && error.isFinal === false;
      // The problem of a tool whose plugin does not run looks like an outage, and the turn does not list the call.
      const isAway = isOutage(error) && !this.#calledTool.has(session);
      const mayRepeat = (isPostponed || isAway) && !this.#changed.has(session);
      if (mayRepeat && (await this.#retryDuringOutage(() => hasNoEffect(turn, signal)))) return 'stopped';
      // A text that a plugin stopped is no error of the agent: the turn ends without it, as below.
      if (!isVeto(error) || isPostponed) throw error;
    }
    if ((await this.#retryDuringOutage(() => turn.look({ signal }))).turn.state !== 'open') return 'over';
    const isEnded = await this.#endTurn(turn, text === '' ? undefined : text);
    // A plugin stopped the text: the turn ends without one.
    if (!isEnded) await this.#endTurn(turn, undefined);
    return 'over';
  }

  /** Repeats an idempotent step while the service is away: no answer of it is lost. */
  async #retryDuringOutage<T>(step: () => Promise<T>): Promise<T> {
    for (let ms = RETRY_PAUSE_MIN_MS; ; ms = Math.min(2 * ms, RETRY_PAUSE_MAX_MS)) {
      try {
        return await step();
      } catch (error) {
        if (!isOutage(error)) throw error;
      }
      await pause(ms, this.#signal);
    }
  }

  /**
   * Repeats the step while a required plugin does not run, because another answer would differ.
   *
   * @returns false: a plugin cancelled the text
   */
  async #endTurn(turn: Turn, text: string | undefined): Promise<boolean> {
    for (let ms = RETRY_PAUSE_MIN_MS; ; ms = Math.min(2 * ms, RETRY_PAUSE_MAX_MS)) {
      const { state, action, isFinal } = await this.#retryDuringOutage(() => turn.end(text, { signal: this.#signal }));
      if (state !== 'open') return true;
      if (action === 'continue' || isFinal) return false;
      await pause(ms, this.#signal);
    }
  }

  async #askAgent(session: Session, message: ServedMessage): Promise<string> {
    const answer = this.#agent(message, { session, signal: this.#signal });
    if (!(Symbol.asyncIterator in answer)) return (await answer) ?? '';
    let text = '';
    for await (const piece of answer) text += piece;
    return text;
  }

  /** Keeps the lease while the agent works, whose steps may be further apart, and while the end of the turn is repeated. */
  async #keepLease<T>(session: Session, message: ServedMessage, work: () => Promise<T>): Promise<T> {
    const ended = new AbortController();
    this.#renewLease(session, message, AbortSignal.any([this.#signal, ended.signal])).catch(() => undefined);
    try {
      return await work();
    } finally {
      ended.abort();
    }
  }

  /** Until the signal aborts, or the turn is not held any more: its next step says why. */
  async #renewLease(session: Session, message: ServedMessage, signal: AbortSignal): Promise<void> {
    const { leaseSeconds = LEASE_SECONDS } = this.#options;
    const tryToHold = async (): Promise<boolean> => {
      try {
        return (await this.#holdTurn(session, message, signal)).state === 'open';
      } catch (error) {
        // The service may be back before the lease expires.
        return !(error instanceof BulkheadError && LOST.has(error.code));
      }
    };
    do await pause((leaseSeconds * 1_000) / RENEWALS, signal);
    while (await tryToHold());
  }

  /** The state `judging`: a required plugin does not run, and the turn may be opened later. @throws BulkheadError `turn_held` */
  async #holdTurn(session: Session, { id, trigger }: ServedMessage, signal: AbortSignal): Promise<TurnRecord> {
    const { leaseSeconds = LEASE_SECONDS } = this.#options;
    const turn = session.turn(id);
    try {
      const { record } = await session.openTurn({ id, trigger, leaseSeconds }, { signal });
      return record ?? (await turn.look({ signal })).turn;
    } catch (error) {
      // The agent of an earlier run opened it with other fields. It belongs to this process now.
      if (hasCode(error, 'id_reused')) return (await turn.look({ signal })).turn;
      throw error;
    }
  }
}

/**
 * Whether an adapter threw this error because a plugin stopped something, or with `isFinal: false`, because a required plugin did not
 * run. Adapters may be of another copy of the package.
 */
const isVeto = (error: unknown): error is Error & { readonly isFinal?: unknown } =>
  error instanceof Error && error.name === 'VetoError';

/** Whether the turn has neither a text of the agent nor a call of a tool. */
async function hasNoEffect(turn: Turn, signal: AbortSignal): Promise<boolean> {
  const { calls, outputs } = await turn.look({ signal });
  return calls.length === 0 && outputs.every(({ state, pieces }) => state !== 'passed' && pieces === 0);
}

/** The message after the plugins' changes: the stream may have shown it before they judged it. */
function withJudged(message: ServedMessage, judged: NonNullable<TurnRecord['message']>): ServedMessage {
  const { text, attachments } = judged;
  const data = { ...message.message.data, attachments: JSON.parse(JSON.stringify(attachments)) };
  return { ...message, text, message: { ...message.message, text, data } };
}

/** The positions of messages, in order, until all messages before them are over. */
class Positions {
  /** Whether each message is over. */
  readonly #isOver = new Map<string, boolean>();

  add(position: string): void {
    this.#isOver.set(position, false);
  }

  /** Returns the last position before which nothing waits; null: it has not changed. */
  finishPosition(position: string): string | null {
    this.#isOver.set(position, true);
    let reached: string | null = null;
    for (const [next, isOver] of this.#isOver) {
      if (!isOver) break;
      this.#isOver.delete(next);
      reached = next;
    }
    return reached;
  }
}

/** Problems after which a turn is not renewed. */
const LOST: ReadonlySet<string> = new Set(['turn_held', 'turn_ended', 'not_found']);
const UNANSWERED: ReadonlySet<TurnRecord['state']> = new Set(['judging', 'open']);
/**
 * Calls of a session that an agent may repeat: they send nothing and run no tool. Adapters open turns under the same ids when they begin
 * again.
 */
const HARMLESS = /^\/sessions\/[^/]+\/(hooks\/[^/]+|compaction|media|tools|turns|turns\/[^/]+\/prompt)$/;

function ignoreMissing(error: unknown): null {
  if (error instanceof BulkheadError && error.status === 404) return null;
  throw error;
}

/** The service asks for the text of a message that is not in the transcript any more, because its session was cleared. */
function ignoreClearedMessage(error: unknown): null {
  if (hasCode(error, 'bad_request') && error.errors.some(({ field }) => field === 'text')) return null;
  throw error;
}

/** A service without this list takes `turns` for the id of a session. */
function throwOldService(error: unknown): never {
  if (!hasCode(error, 'not_found') || isRouteMissing(error)) throw error;
  throw new Error(
    'The service does not list open turns (GET /sessions/turns), because its release is older than this client. Update the service, or install the client of its release.',
    { cause: error },
  );
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
