/** The messages of users that a session knows, read page by page, and which of them the messages of a request are. */
import type { Attachment, Prompt, Session, Trigger, Turn, TurnRecord } from '../session/session.ts';

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
export const INNER_TRIGGER: Trigger = 'tool';
/** An id that an adapter made, which begins with the digest of the message. */
const ID_WITH_DIGEST = /^[0-9a-f]{32}\./;
/** Turns in a page. As the service's default: most sessions have fewer, and the messages of a request are among the newest. */
const PAGE_SIZE = 100;

export class KnownMessages {
  readonly #session: Session;
  /** Oldest first. */
  #messages: KnownMessage[] = [];
  /** Cursor of the next page of older messages. Undefined: none was read. Null: all were read, but other processes may add some. */
  #cursor: string | null | undefined;

  constructor(session: Session) {
    this.#session = session;
    // A session that was started here has no messages yet; one with a key may have been started before.
    this.#cursor = session.record !== null && session.record.key === null ? null : undefined;
  }

  /** Whether a page was read, or the session had no messages when it was started here. */
  get wasRead(): boolean {
    return this.#cursor !== undefined;
  }

  /** Whether no older messages are left to read. */
  get isComplete(): boolean {
    return this.#cursor === null;
  }

  get isEmpty(): boolean {
    return this.#messages.length === 0;
  }

  find(turnId: string): KnownMessage | undefined {
    return this.#messages.find(({ turn }) => turn.id === turnId);
  }

  /** Returns the last message whose turn is open. */
  findOpen(): KnownMessage | undefined {
    return this.#messages.findLast(({ state }) => state === 'open');
  }

  /** Lists the messages that are not among these. */
  listOthers(known: readonly (KnownMessage | null)[]): KnownMessage[] {
    return this.#messages.filter((one) => !known.includes(one));
  }

  /** Adds a message, or replaces the one of its turn. */
  set(message: KnownMessage): void {
    const at = this.#messages.findIndex(({ turn }) => turn.id === message.turn.id);
    if (at < 0) this.#messages.push(message);
    else this.#messages[at] = message;
  }

  remove(message: KnownMessage): void {
    this.#messages = this.#messages.filter((one) => one !== message);
  }

  /** Reads more of the messages that the session has, newest first, until there are no more. */
  async loadMore(signal?: AbortSignal): Promise<void> {
    if (this.#cursor === null) return;
    if (this.#cursor === undefined) {
      await this.loadNewest(signal);
      return;
    }
    const page = await this.#readTurns(this.#cursor, signal);
    const older = this.#toKnown(page.items);
    this.#messages = [...older, ...this.#messages.filter((one) => !older.includes(one))];
    this.#cursor = page.nextCursor;
  }

  /** Reads the newest messages, back to the first page that has a known one, or one page if none is known. */
  async loadNewest(signal?: AbortSignal): Promise<void> {
    const items: TurnRecord[] = [];
    let cursor: string | null | undefined;
    do {
      const page = await this.#readTurns(cursor, signal);
      items.push(...page.items);
      cursor = page.nextCursor;
    } while (cursor !== null && this.#messages.length > 0 && !items.some(({ id }) => this.find(id)));
    if (this.#cursor === undefined || this.#messages.length === 0) this.#cursor = cursor;
    const newest = this.#toKnown(items);
    this.#messages = [...this.#messages.filter((one) => !newest.includes(one)), ...newest];
  }

  #readTurns(cursor: string | null | undefined, signal: AbortSignal | undefined) {
    return this.#session.turns({ order: 'newest', limit: PAGE_SIZE, ...(cursor ? { cursor } : {}), signal });
  }

  /** @param turns newest first. Returns their messages, oldest first: the known ones as they are. */
  #toKnown(turns: readonly TurnRecord[]): KnownMessage[] {
    return turns
      .filter(({ state }) => state !== 'cleared')
      .map(
        (record) =>
          this.find(record.id) ?? {
            turn: this.#session.turn(record.id),
            digest: '',
            state: record.state,
            isInner: record.trigger === INNER_TRIGGER,
            text: record.message?.text ?? null,
            attachments: record.message?.attachments ?? [],
            sent: null,
            record,
          },
      )
      .reverse();
  }

  /**
   * Lists messages that another process opened under ids of the app, newest first: they may have files, or plugins may have changed
   * their texts, so that only the service knows what was sent.
   *
   * @param knownByIndex as `match` returned it; the listed messages come between those of the indexes around
   */
  listUnrecognized(knownByIndex: readonly (KnownMessage | null)[], index: number): KnownMessage[] {
    const findPosition = (known: KnownMessage | null | undefined): number =>
      known ? this.#messages.indexOf(known) : -1;
    const after = findPosition(knownByIndex.slice(0, index).findLast((known) => known !== null));
    const before = findPosition(knownByIndex.slice(index + 1).find((known) => known !== null));
    return this.#messages
      .slice(after + 1, before < 0 ? undefined : before)
      .filter(({ digest, state, turn }) => digest === '' && state !== 'judging' && !ID_WITH_DIGEST.test(turn.id))
      .reverse();
  }

  /**
   * Finds messages among those that the session knows, from the last one back. A message that was answered and comes again without its
   * answer is a new message.
   *
   * @returns the known message at the index of each message of a request that has one
   */
  match(
    { words, digests, lastReply, messageId, resultIds }: AskedMessages,
    { isBusy, hasCallOf }: TurnWork,
  ): (KnownMessage | null)[] {
    const knownByIndex: (KnownMessage | null)[] = digests.map(() => null);
    const last = digests.findLastIndex((digest) => digest !== null);
    let before = this.#messages.length;
    for (let index = last; index >= 0; index -= 1) {
      const text = words[index];
      const digest = digests[index];
      if (typeof digest !== 'string') continue;
      const hasText = (known: KnownMessage): boolean =>
        known.digest === digest ||
        known.turn.id.startsWith(`${digest}.`) ||
        (typeof text === 'string' && known.text === text);
      const isSame = (known: KnownMessage): boolean => {
        if (index === last && messageId !== undefined) return known.turn.id === messageId;
        if (!hasText(known)) return false;
        if (index < lastReply) return true;
        if (index < last) return known.state !== 'ended';
        // Its words without its files are another message.
        if (known.digest !== digest && (known.sent?.attachments ?? []).length > 0) return false;
        const isOpen = known.state === 'open' || known.state === 'judging';
        return isOpen && !isBusy(known.turn.id, resultIds);
      };
      const found = this.#messages.slice(0, before);
      // Several open turns may have these words. The last message is of the turn whose calls have results here, an earlier message
      // of one that is not busy.
      const isBest = ({ turn }: KnownMessage): boolean =>
        index === last ? hasCallOf(turn.id, resultIds) : !isBusy(turn.id, []);
      const best = found.findLastIndex((known) => isSame(known) && isBest(known));
      const at = best < 0 ? found.findLastIndex(isSame) : best;
      if (at < 0) continue;
      const known = this.#messages[at];
      knownByIndex[index] = known ?? null;
      // A message that comes again after its answer may be among the earlier ones, too.
      if (index !== last || known?.state === 'open' || known?.state === 'judging') before = at;
    }
    return knownByIndex;
  }
}
