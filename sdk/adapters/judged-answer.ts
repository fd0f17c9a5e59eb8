/** Judges one answer of a model, whole or as it is streamed. What is not judged is not returned. */
import type { Prompt, Turn, TurnOutput } from '../session/session.ts';
import type { ModelCall, RefusedCall } from './model-calls.ts';
import { VetoError } from './veto-error.ts';

interface AnswerOptions {
  readonly turn: Turn;
  /** How plugins judge texts, as the turn's prompt said. */
  readonly outbound: Prompt['outbound'];
  readonly target: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Whether a tool is the framework's own. */
  readonly isOwn: (name: string) => Promise<boolean>;
  /** Has the plugins judge a call. */
  readonly onCall: (call: ModelCall) => Promise<ModelCall | RefusedCall>;
  /** Keeps refused calls for the model. Returns whether it may be asked again. */
  readonly onRefused: (calls: readonly RefusedCall[], isAll: boolean) => boolean;
  readonly onEnd: () => Promise<void>;
  /** The next message of the conversation waits for this work. */
  readonly onAbandon: (work: Promise<unknown>) => void;
}

/** Pieces end after a sentence, so that plugins judge what they can understand. */
const SENTENCE_END = /[.!?…]["')\]»”]*\s|[。！？]|\n/g;
/** A longer piece is sent without the end of its sentence, characters. */
const PIECE_MAX_CHARS = 2_000;

export class JudgedAnswer {
  readonly #options: AnswerOptions;
  readonly #streams = new Set<JudgedStream>();
  readonly #refused: RefusedCall[] = [];
  #hasCalls = false;

  constructor(options: AnswerOptions) {
    this.#options = options;
  }

  /** Whether text may leave as the model writes it, because no plugin judges messages. */
  get isFree(): boolean {
    return this.#options.outbound === 'none';
  }

  /** Judges a whole text. @throws VetoError */
  async judge(text: string): Promise<string> {
    if (text === '') return text;
    const { turn, target, signal } = this.#options;
    const request = {
      id: crypto.randomUUID(),
      ...(target === undefined ? {} : { target }),
      ...(signal ? { signal } : {}),
    };
    return requirePassed(await turn.output(toStorable(text), request)).show;
  }

  /** Opens a text that the model writes piece by piece. */
  openStream(): JudgedStream {
    const stream = new JudgedStream(this.#options);
    this.#streams.add(stream);
    return stream;
  }

  /** Whether a tool is the framework's own, whose calls are shown when they are judged. */
  isOwn(name: string): Promise<boolean> {
    return this.#options.isOwn(name);
  }

  /** Has the plugins judge a call of a tool. Returns it as they let it pass; null: leave it out. */
  async judgeCall(call: ModelCall): Promise<ModelCall | null> {
    const judged = await this.#options.onCall(call);
    if ('text' in judged) {
      this.#refused.push(judged);
      return null;
    }
    this.#hasCalls = true;
    return judged;
  }

  /**
   * Ends the turn, unless the model called a tool. Nothing of the answer may be left.
   *
   * @returns true: plugins refused all calls, so ask the model again with a request that is prepared anew
   */
  async end(): Promise<boolean> {
    this.#streams.clear();
    const { onRefused, onEnd } = this.#options;
    const mayAskAgain = this.#refused.length > 0 && onRefused(this.#refused, !this.#hasCalls);
    if (this.#hasCalls) return false;
    if (mayAskAgain) return true;
    await onEnd();
    return false;
  }

  /** Records what was shown of an answer that broke off, so that the transcript has it. Never fails. */
  async abandon(): Promise<void> {
    const work = Promise.all([...this.#streams].map((stream) => stream.abandon()));
    this.#options.onAbandon(work);
    await work;
  }
}

/** One text as the model writes it. */
export class JudgedStream {
  readonly #options: AnswerOptions;
  readonly #id = crypto.randomUUID();
  #text = '';
  #piece = 0;
  #isOver = false;
  /** Everything that was returned, judged. */
  shown = '';

  constructor(options: AnswerOptions) {
    this.#options = options;
  }

  /** Returns what may be shown now. @throws VetoError */
  async push(delta: string): Promise<string> {
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

  /** Returns the rest that may be shown. @throws VetoError */
  async end(): Promise<string> {
    if (this.#isOver) return '';
    const text = this.#text;
    const { outbound, turn } = this.#options;
    if (outbound === 'pieces' && this.#piece > 0) return this.#send(text, true);
    this.#isOver = true;
    if (text === '') return '';
    const isShown = outbound === 'none';
    const output = requirePassed(await turn.output(toStorable(text), { ...this.#request(), id: this.#id, isShown }));
    if (isShown) return '';
    this.shown += output.show;
    return output.show;
  }

  async abandon(): Promise<void> {
    const { outbound, turn, target } = this.#options;
    if (this.#isOver || outbound !== 'none' || this.#text === '') return;
    this.#isOver = true;
    const request = { id: this.#id, isShown: true, ...(target === undefined ? {} : { target }) };
    await turn.output(toStorable(this.#text), request).catch(() => undefined);
  }

  async #send(text: string, isLast: boolean): Promise<string> {
    const { turn } = this.#options;
    const request = { ...this.#request(), id: this.#id, piece: this.#piece, done: isLast };
    this.#isOver = isLast;
    const output = requirePassed(await turn.piece(toStorable(text), request));
    this.#piece += 1;
    this.shown += output.show;
    return output.show;
  }

  #request(): { target?: string; signal?: AbortSignal } {
    const { target, signal } = this.#options;
    return { ...(target === undefined ? {} : { target }), ...(signal ? { signal } : {}) };
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

/** What the transcript can hold: neither half surrogate pairs nor NUL. The service refuses a text that is too long. */
export const toStorable = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd');
