/** What every adapter does in an agent's turn, whatever the framework: ask the plugins at the right moments. */
import type { Session, ToolResult } from '../session/session.ts';

/** A plugin stopped the operation. `message` is what a user may read. */
export class VetoError extends Error {
  override readonly name = 'VetoError';
  /** Slug of the plugin. */
  readonly plugin: string;
  readonly reason: string;

  constructor(plugin: string | null, reason: string | null) {
    super(`${plugin ?? 'a plugin'} stopped it: ${reason ?? 'no reason given'}`);
    this.plugin = plugin ?? '';
    this.reason = reason ?? '';
  }
}

export interface TurnOptions {
  /** Who writes to the agent, as plugins see it. Default `user`. */
  readonly from?: string;
  /** Whom the agent answers, as plugins see it. Default `user`. */
  readonly target?: string;
  /** A conversation of more messages is summarized by a plugin, if one can. Default: never. */
  readonly compactAfter?: number;
  /** Messages that stay as they are after the summary. Default 4. */
  readonly keep?: number;
}

/** A message as plugins see it. */
export interface PlainMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly text: string;
}

/** Texts remembered of one conversation: a model is asked again and again with what was said before. */
const REMEMBERED_MAX = 1_000;

export class Turn {
  readonly session: Session;
  readonly #options: TurnOptions;
  /** What became of a text: each message passes the plugins once. */
  readonly #inbound = new Map<string, Promise<string>>();
  #summary: { readonly upTo: number; readonly text: string } | null = null;

  constructor(session: Session, options: TurnOptions = {}) {
    this.session = session;
    this.#options = options;
  }

  /** The system prompt as the plugins want it. */
  async systemPrompt(systemPrompt: string, model: string): Promise<string> {
    const { context } = await this.session.hook('systemPrompt', { systemPrompt, model: model.slice(0, 200) });
    return context.systemPrompt;
  }

  /** A message to the agent, as the plugins let it through. @throws VetoError */
  inbound(text: string): Promise<string> {
    const known = this.#inbound.get(text);
    if (known) return known;
    const passed = this.#passInbound(text);
    this.#inbound.set(text, passed);
    const oldest = this.#inbound.keys().next().value;
    if (this.#inbound.size > REMEMBERED_MAX && oldest !== undefined) this.#inbound.delete(oldest);
    // What failed is asked again next time; a veto stays one.
    passed.catch((error) => error instanceof VetoError || this.#inbound.delete(text));
    return passed;
  }

  async #passInbound(text: string): Promise<string> {
    const message = { id: crypto.randomUUID(), from: this.#options.from ?? 'user', text, attachments: [] };
    const answer = await this.session.hook('inboundMessage', { message });
    if (answer.action === 'cancel') throw new VetoError(answer.cancelledBy, answer.reason);
    return answer.context.message.text;
  }

  /** A message of the agent, as the plugins let it through. @throws VetoError */
  async outbound(text: string): Promise<string> {
    if (text === '') return text;
    const message = { id: crypto.randomUUID(), text, attachments: [] };
    const target = this.#options.target ?? 'user';
    const answer = await this.session.hook('outboundMessage', { message, target }, { trigger: 'agent' });
    if (answer.action === 'cancel') throw new VetoError(answer.cancelledBy, answer.reason);
    return answer.context.message.text;
  }

  /**
   * How much of a conversation a plugin's summary replaces; null: nothing, because it is short or no plugin summarizes.
   *
   * @param messages without the system prompt
   */
  async compact(messages: readonly PlainMessage[]): Promise<{ replaced: number; summary: string } | null> {
    const { compactAfter, keep = 4 } = this.#options;
    if (compactAfter === undefined || messages.length <= compactAfter) return null;
    const known = this.#summary;
    if (known && messages.length - known.upTo <= compactAfter) return { replaced: known.upTo, summary: known.text };
    const upTo = firstAfterTools(messages, messages.length - keep);
    const at = new Date().toISOString();
    const { summary } = await this.session.compact({
      messages: messages.slice(0, upTo).map((message, index) => ({ ...message, id: String(index + 1), at })),
    });
    if (summary === null || upTo <= 0) return null;
    this.#summary = { upTo, text: summary };
    return { replaced: upTo, summary };
  }
}

/** A tool's answer never stands without the call before it. */
function firstAfterTools(messages: readonly PlainMessage[], wanted: number): number {
  let at = Math.max(0, wanted);
  while (at > 0 && messages[at]?.role === 'tool') at -= 1;
  return at;
}

/** How a summary is put into a conversation. */
export const asSummary = (summary: string): string => `Summary of the conversation so far:\n${summary}`;

/** A tool's result as a model reads it: its texts, and what is no text as JSON. */
export const toolText = ({ content }: ToolResult): string =>
  content.map((part) => (part.type === 'text' ? part.text : JSON.stringify(part))).join('\n');

/** The same for frameworks that know no failed result: the model is told in words. */
export const toolAnswer = (result: ToolResult): string =>
  result.isError ? `It failed: ${toolText(result)}` : toolText(result);
