/** The deltas of one provider's answer: checked, masked, and passed on before the answer, which must continue them. */
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import { isStorable, UNSTORABLE } from '../../db/postgres/storable-json.ts';
import { describeFieldFault, locateFault } from '../../sdk/contract/field-faults.ts';
import {
  type providerCompletion,
  type providerDelta,
  TEXT_MAX_CHARS,
  YIELDED_ARGUMENTS_MAX_CHARS,
} from '../../sdk/contract/payloads.ts';
import { surfaces } from '../../sdk/contract/protocol.ts';
import type { LinkResult } from '../calls/chain.ts';
import type { MaskedStream, SecretMask } from '../records/secret-mask.ts';

export type ProviderDelta = z.infer<typeof providerDelta>;
type CallDelta = NonNullable<ProviderDelta['toolCall']>;
type ToolCall = NonNullable<z.infer<typeof providerCompletion>['toolCalls']>[number];
/** Receives a delta. The next one comes when the promise resolves. Must not reject. */
export type DeltaReader = (delta: ProviderDelta) => Promise<void>;

const HIGH_SURROGATE_AT_END = /[\ud800-\udbff]$/;
const { providers } = surfaces;

export class AnswerDeltas {
  /** Aborts when a delta is refused, or with the caller. */
  readonly signal: AbortSignal;
  readonly #mask: SecretMask;
  readonly #read: DeltaReader;
  readonly #refused = new AbortController();
  #fault: string | null = null;
  #textChars = 0;
  #argumentsChars = 0;
  readonly #text: TextDeltas;
  readonly #calls: CallDeltas[] = [];

  constructor(mask: SecretMask, read: DeltaReader, signal: AbortSignal | undefined) {
    this.#mask = mask;
    this.#read = read;
    this.#text = new TextDeltas(mask);
    this.signal = signal ? AbortSignal.any([signal, this.#refused.signal]) : this.#refused.signal;
  }

  /** Why a delta was refused. Null: none was. */
  get fault(): string | null {
    return this.#fault;
  }

  /**
   * Checks and counts a delta when it arrives, so that those that wait never hold more than one answer may.
   *
   * @returns a function that passes it on, or refuses it; does not reject
   */
  readonly receive = (delta: unknown): (() => Promise<void>) => {
    const { data, error } = providers.delta.safeParse(delta, { error: describeFieldFault });
    if (!data) return async () => this.#refuse(`it yielded a malformed delta: ${locateFault(error)}`);
    this.#textChars += data.text?.length ?? 0;
    this.#argumentsChars += data.toolCall?.argumentsText?.length ?? 0;
    // The answer would be refused after the caller has shown all of it.
    if (this.#textChars > TEXT_MAX_CHARS)
      return async () => this.#refuse(`it yielded more than ${TEXT_MAX_CHARS} characters of text`);
    if (this.#argumentsChars > YIELDED_ARGUMENTS_MAX_CHARS)
      return async () => this.#refuse(`it yielded more than ${YIELDED_ARGUMENTS_MAX_CHARS} characters of arguments`);
    return () => this.#passOn(data);
  };

  /** Passes on what the answer has beyond the deltas. @returns the result of the call */
  async end(result: LinkResult): Promise<LinkResult> {
    if (this.#fault === null && result.kind === 'answered') {
      const answer = providers.result.safeParse(result.answer);
      // The caller refuses it.
      if (!answer.success) return result;
      await this.#continueWith(answer.data);
    }
    return this.#fault === null ? result : { kind: 'error', message: this.#fault };
  }

  #refuse(fault: string): void {
    this.#fault ??= fault;
    this.#refused.abort(fault);
  }

  async #passOn({ text = '', toolCall }: ProviderDelta): Promise<void> {
    if (this.#fault !== null) return;
    await this.#send({ text: this.#text.push(text) });
    if (toolCall) await this.#passOnCall(toolCall);
  }

  async #passOnCall({ index, id, name, argumentsText = '' }: CallDelta): Promise<void> {
    const known = this.#calls[index];
    if (known) return this.#send({ toolCall: { index, argumentsText: known.text.push(argumentsText) } });
    if (index !== this.#calls.length || id === undefined || name === undefined)
      return this.#refuse(
        `the first delta of tool call ${index} must have its id and name, and follow the calls before`,
      );
    const call = new CallDeltas(this.#mask.mask({ id, name }), this.#mask);
    this.#calls.push(call);
    await this.#send({ toolCall: { index, ...call.head, argumentsText: call.text.push(argumentsText) } }, true);
  }

  async #continueWith({ text, toolCalls = [] }: z.infer<typeof providerCompletion>): Promise<void> {
    if (!text.startsWith(this.#text.sent))
      return this.#refuse('the text that it returned does not begin with the text that it yielded');
    await this.#send({ text: text.slice(this.#text.sent.length) });
    if (this.#calls.length > toolCalls.length)
      return this.#refuse(`it yielded ${this.#calls.length} tool calls and returned ${toolCalls.length}`);
    for (const [index, call] of toolCalls.entries()) await this.#continueCall(index, call);
  }

  async #continueCall(index: number, call: ToolCall): Promise<void> {
    const { id, name } = call;
    const known = this.#calls[index];
    if (!known)
      return this.#send({ toolCall: { index, id, name, argumentsText: JSON.stringify(call.arguments) } }, true);
    await this.#send({ toolCall: { index, argumentsText: known.text.end() } });
    if (!known.isOf(call)) this.#refuse(`tool call ${index} that it returned is not the one that it yielded`);
  }

  /** @param isFirst the first delta of a tool call matters without arguments */
  async #send(delta: ProviderDelta, isFirst = false): Promise<void> {
    const text = delta.text ?? delta.toolCall?.argumentsText ?? '';
    if (this.#fault !== null || (text === '' && !isFirst)) return;
    if (isStorable(text)) await this.#read(delta);
    else this.#refuse(`the text that it yielded ${UNSTORABLE}`);
  }
}

/** A text in pieces. Half a surrogate pair, and what may begin a secret, wait for the next piece. */
class TextDeltas {
  sent = '';
  readonly #masked: MaskedStream;
  #half = '';

  constructor(mask: SecretMask) {
    this.#masked = mask.openStream();
  }

  push(piece: string): string {
    const whole = this.#half + piece;
    this.#half = HIGH_SURROGATE_AT_END.exec(whole)?.[0] ?? '';
    return this.#recordSent(this.#masked.push(whole.slice(0, whole.length - this.#half.length)));
  }

  end(): string {
    return this.#recordSent(this.#masked.push(this.#half) + this.#masked.end());
  }

  #recordSent(text: string): string {
    this.sent += text;
    return text;
  }
}

class CallDeltas {
  readonly head: Pick<ToolCall, 'id' | 'name'>;
  readonly text: TextDeltas;

  constructor(head: Pick<ToolCall, 'id' | 'name'>, mask: SecretMask) {
    this.head = head;
    this.text = new TextDeltas(mask);
  }

  /** Whether the deltas together are this call. */
  isOf({ id, name, arguments: args }: ToolCall): boolean {
    if (id !== this.head.id || name !== this.head.name) return false;
    try {
      return isDeepStrictEqual(JSON.parse(this.text.sent), args);
    } catch {
      return false;
    }
  }
}
