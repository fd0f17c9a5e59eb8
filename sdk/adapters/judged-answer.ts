/** Judges one answer of a model, whole or as it is streamed, and returns judged texts only. */
import type { Prompt, Turn, TurnOutput } from '../session/session.ts';
import { toStorable } from '../session/storable-text.ts';
import type { ModelCall, RefusedCall, ToolName } from './model-calls.ts';
import { VetoError } from './veto-error.ts';

interface AnswerOptions {
  readonly turn: Turn;
  /** How plugins judge texts, as the turn's prompt said. */
  readonly outbound: Prompt['outbound'];
  readonly target: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Whether a tool is the framework's own. */
  readonly isOwn: (tool: ToolName) => Promise<boolean>;
  /** Returns an id that no other call of the turn has, and for a call of a plugin's tool, none of another process either. */
  readonly onCallId: (callId: string, tool: ToolName) => Promise<string>;
  /** Has the plugins judge a call. */
  readonly onCall: (call: ModelCall) => Promise<ModelCall | RefusedCall>;
  /** Keeps refused calls for the model, and the reasoning before them if all were refused. Returns whether it may be asked again. */
  readonly onRefused: (calls: readonly RefusedCall[], isAll: boolean, reasoning: readonly object[]) => boolean;
  /** Keeps reasoning that the framework does not get, for the model. */
  readonly onReasoningLeftOut: (callId: string, reasoning: readonly object[]) => void;
  readonly onEnd: () => Promise<void>;
  /** The next message of the conversation waits for this work. */
  readonly onAbandon: (work: Promise<unknown>) => void;
}

/** Pieces end after a sentence, so that plugins judge what they can understand. */
const SENTENCE_END = /[.!?…]["')\]»”]*\s|[。！？]|\n/g;
/** A longer piece is sent without the end of its sentence, characters. */
const PIECE_MAX_CHARS = 2_000;
const ABANDONED = 'The turn of this answer was ended by the next message of the user.';

export class JudgedAnswer {
  readonly #options: AnswerOptions;
  #stream: JudgedStream | null = null;
  readonly #refused: RefusedCall[] = [];
  /** Ids of calls that are not judged yet, by the ids of the model. */
  readonly #callIds = new Map<string, string>();
  /** The id of the first call that passed, as the framework gets it. */
  #firstCallId: string | null = null;
  #reasoning: readonly object[] = [];
  #isReasoningLeftOut = false;
  #isOver = false;
  /** Whether the model reported an error. The app may ask again before it has read the answer to its end. */
  hasFailed = false;
  /** Whether a plugin changed a text: it was installed after the turn's prompt was read. */
  #isChanged = false;
  readonly #onAbort = (): void => void this.abandon();

  constructor(options: AnswerOptions) {
    this.#options = options;
  }

  /** Whether text may leave as the model writes it, because no plugin judges messages. */
  get isFree(): boolean {
    return this.#options.outbound === 'none' && !this.#isChanged;
  }

  /** Whether the model may still answer, or its answer is judged. */
  get isRunning(): boolean {
    return !this.#isOver && !this.isAborted;
  }

  get isAborted(): boolean {
    return this.#options.signal?.aborted === true;
  }

  /** Runs a step of the answer. If it fails, abandons the answer, so that the same message can be answered again. */
  async attempt<T>(work: () => PromiseLike<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw await this.fail(error);
    }
  }

  /** Abandons an answer that failed. Returns the error to throw: a veto of what was shown counts more than the failure. */
  async fail(error: unknown): Promise<unknown> {
    return (await this.abandon()) ?? error;
  }

  /** Judges the whole text of the answer. @throws VetoError */
  async judge(text: string): Promise<string> {
    if (text === '') return text;
    const { turn, target, signal } = this.#options;
    const request = { id: crypto.randomUUID(), target, signal };
    const storable = toStorable(text);
    const { show } = requirePassed(await turn.output(storable, request));
    this.#isChanged ||= show !== storable;
    return show;
  }

  /** Opens the text that the model writes piece by piece: the whole text of the answer, so that plugins judge no part of it alone. */
  openStream(): JudgedStream {
    this.#stream = new JudgedStream(this.#options);
    // Frameworks neither read nor end the stream of an aborted run.
    this.#options.signal?.addEventListener('abort', this.#onAbort, { once: true });
    return this.#stream;
  }

  /** Whether a tool is the framework's own, whose calls are shown when they are judged. */
  isOwn(name: string): Promise<boolean> {
    return this.#options.isOwn({ name });
  }

  /** Returns the id that a call will have when it is judged. */
  async nameCall(callId: string, tool: ToolName): Promise<string> {
    const id = this.#callIds.get(callId) ?? (await this.#options.onCallId(callId, tool));
    this.#callIds.set(callId, id);
    return id;
  }

  /** Has the plugins judge a call of a tool. Returns the call after their changes. Null: leave it out. */
  async judgeCall(call: ModelCall): Promise<ModelCall | null> {
    const callId = await this.nameCall(call.callId, call);
    this.#callIds.delete(call.callId);
    const judged = await this.#options.onCall({ ...call, callId });
    if ('text' in judged) {
      this.#refused.push(judged);
      return null;
    }
    this.#firstCallId ??= judged.callId;
    return judged;
  }

  /**
   * Keeps the reasoning of the answer, in the form of the framework's messages. Some providers refuse a request in which the calls of
   * an answer come without its reasoning.
   *
   * @param isLeftOut whether the framework does not get the reasoning
   */
  keepReasoning(reasoning: readonly object[], isLeftOut: boolean): void {
    this.#reasoning = reasoning;
    this.#isReasoningLeftOut = isLeftOut && reasoning.length > 0;
  }

  /**
   * Ends the turn, unless the model called a tool. Nothing of the answer may be left.
   *
   * @returns true: plugins refused all calls, so ask the model again with a request that is prepared anew
   */
  async end(): Promise<boolean> {
    this.#closeStream();
    try {
      const { onRefused, onReasoningLeftOut, onEnd } = this.#options;
      const first = this.#firstCallId;
      const isAll = first === null;
      const mayAskAgain = this.#refused.length > 0 && onRefused(this.#refused, isAll, isAll ? this.#reasoning : []);
      if (!isAll) {
        if (this.#isReasoningLeftOut) onReasoningLeftOut(first, this.#reasoning);
        return false;
      }
      if (mayAskAgain) return true;
      await onEnd();
      return false;
    } finally {
      this.#isOver = true;
    }
  }

  /**
   * Records what was shown of an answer that broke off, so that the transcript has it. Never fails. Returns the veto of a plugin that was
   * installed after the text was shown.
   */
  async abandon(): Promise<VetoError | null> {
    this.#isOver = true;
    const work = this.#stream?.abandon() ?? Promise.resolve(null);
    this.#closeStream();
    this.#options.onAbandon(work);
    return await work;
  }

  #closeStream(): void {
    this.#stream = null;
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
  }
}

/** The text of an answer as the model writes it. */
export class JudgedStream {
  readonly #options: AnswerOptions;
  readonly #id = crypto.randomUUID();
  #text = '';
  #piece = 0;
  #isOver = false;
  #isAbandoned = false;
  /** The last request, which may have failed. */
  #sending: Promise<unknown> = Promise.resolve();
  /** Everything that was returned, judged. */
  shown = '';

  constructor(options: AnswerOptions) {
    this.#options = options;
  }

  /** Returns what may be shown now. @throws VetoError; Error after `abandon` */
  async push(delta: string): Promise<string> {
    this.#requireNotAbandoned();
    this.#text += delta;
    const { outbound } = this.#options;
    if (outbound === 'none') return delta;
    if (outbound === 'whole') return '';
    const cut = findPieceEnd(this.#text);
    if (cut === 0) return '';
    const piece = this.#text.slice(0, cut);
    this.#text = this.#text.slice(cut);
    return this.#send(piece, false);
  }

  /** Returns the rest that may be shown. @throws VetoError; Error after `abandon` */
  async end(): Promise<string> {
    this.#requireNotAbandoned();
    const text = this.#text;
    const { outbound, turn } = this.#options;
    if (this.#isOver) return '';
    if (outbound === 'pieces' && this.#piece > 0) return this.#send(text, true);
    this.#isOver = true;
    if (text === '') return '';
    if (outbound === 'none') {
      await this.#recordShown();
      return '';
    }
    const output = await this.#awaitPassed(turn.output(toStorable(text), this.#request()));
    this.shown += output.show;
    return output.show;
  }

  /** Never fails. Returns the veto of the text that was shown and not sent yet. */
  async abandon(): Promise<VetoError | null> {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#isAbandoned = true;
      if (this.#options.outbound === 'none' && this.#text !== '')
        return this.#recordShown().then(
          () => null,
          (error) => (error instanceof VetoError ? error : null),
        );
    }
    // A text on its way must be in the transcript before what follows.
    await this.#sending;
    return null;
  }

  /** Ends an abandoned stream that is read nevertheless: the transcript would lack what it shows. */
  #requireNotAbandoned(): void {
    if (this.#isAbandoned) throw this.#options.signal?.reason ?? new Error(ABANDONED);
  }

  /** Sends a text that was shown. No abort stops it: the transcript must have the text. @throws VetoError */
  async #recordShown(): Promise<void> {
    const { signal: _unused, ...request } = this.#request();
    await this.#awaitPassed(this.#options.turn.output(toStorable(this.#text), { ...request, isShown: true }));
  }

  async #send(text: string, isLast: boolean): Promise<string> {
    const { turn } = this.#options;
    const request = { ...this.#request(), piece: this.#piece, done: isLast };
    this.#isOver = isLast;
    const output = await this.#awaitPassed(turn.piece(toStorable(text), request));
    this.#piece += 1;
    this.shown += output.show;
    return output.show;
  }

  /** @throws VetoError */
  async #awaitPassed(sent: Promise<TurnOutput>): Promise<TurnOutput> {
    this.#sending = sent.catch(() => undefined);
    return requirePassed(await sent);
  }

  #request() {
    const { target, signal } = this.#options;
    return { id: this.#id, target, signal };
  }
}

/** The end of the last whole sentence; 0: there is none yet. */
function findPieceEnd(text: string): number {
  const end = [...text.matchAll(SENTENCE_END)].at(-1);
  if (end) return end.index + end[0].length;
  if (text.length < PIECE_MAX_CHARS) return 0;
  // Half a surrogate pair waits for the other half.
  return /[\ud800-\udbff]$/.test(text) ? text.length - 1 : text.length;
}

/** @throws VetoError */
function requirePassed(output: TurnOutput): TurnOutput {
  if (output.action === 'cancel') throw new VetoError(output.cancelledBy, output.reason, output.isFinal);
  return output;
}
