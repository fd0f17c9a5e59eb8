/** Runs the hooks of one agent's conversation, for all adapters. */
import { describeCancel } from '../contract/errors.ts';
import type { Session, Summary, ToolResult } from '../session/session.ts';

/** A plugin cancelled the operation, or a required plugin did not run. `message` is safe to show to users. */
export class VetoError extends Error {
  override readonly name = 'VetoError';
  /** Slug of the plugin that cancelled, or that is required and did not run. */
  readonly plugin: string;
  readonly reason: string;
  /** Whether the plugin itself cancelled. False: it is required and did not run, and the operation may pass later. */
  readonly isFinal: boolean;

  constructor(plugin: string | null, reason: string | null, isFinal = true) {
    super(describeCancel(plugin, reason));
    this.plugin = plugin ?? '';
    this.reason = reason ?? '';
    this.isFinal = isFinal;
  }
}

export interface TurnOptions {
  /** The sender of messages to the agent, as plugins see it. Default: `user`. */
  readonly from?: string;
  /** The recipient of the agent's messages, as plugins see it. Default: `user`. */
  readonly target?: string;
  /** Number of messages after which a plugin summarizes the conversation. Default: never. */
  readonly compactAfter?: number;
  /** Number of recent messages that the summary does not replace. Default: 4. */
  readonly keep?: number;
}

/** A message as plugins see it. */
export interface PlainMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly text: string;
}

/** Frameworks send the whole conversation with every model call, so results are cached by text. */
const CACHE_MAX = 1_000;

export class Turn {
  readonly session: Session;
  readonly #options: TurnOptions;
  /** Results of `inboundMessage` by text: every message runs through the plugins once. */
  readonly #inbound = new Map<string, Promise<string>>();
  #summary: { readonly upTo: number; readonly text: string } | null = null;

  constructor(session: Session, options: TurnOptions = {}) {
    this.session = session;
    this.#options = options;
  }

  /** Runs `systemPrompt` and returns the resulting prompt. @throws VetoError when a required plugin did not run */
  async systemPrompt(systemPrompt: string, model: string): Promise<string> {
    const answer = await this.session.hook('systemPrompt', { systemPrompt, model: model.slice(0, 200) });
    requireContinue(answer);
    return answer.context.systemPrompt;
  }

  /** Runs `inboundMessage` and returns the resulting text. @throws VetoError */
  inbound(text: string): Promise<string> {
    const known = this.#inbound.get(text);
    if (known) return known;
    const result = this.#runInbound(text);
    this.#inbound.set(text, result);
    const oldest = this.#inbound.keys().next().value;
    if (this.#inbound.size > CACHE_MAX && oldest !== undefined) this.#inbound.delete(oldest);
    // A failure is retried next time; a plugin's own cancel is final.
    result.catch((error) => (error instanceof VetoError && error.isFinal) || this.#inbound.delete(text));
    return result;
  }

  async #runInbound(text: string): Promise<string> {
    const message = { id: crypto.randomUUID(), from: this.#options.from ?? 'user', text, attachments: [] };
    const answer = await this.session.hook('inboundMessage', { message });
    requireContinue(answer);
    return answer.context.message.text;
  }

  /** Runs `outboundMessage` and returns the resulting text. @throws VetoError */
  async outbound(text: string): Promise<string> {
    if (text === '') return text;
    const message = { id: crypto.randomUUID(), text, attachments: [] };
    const target = this.#options.target ?? 'user';
    const answer = await this.session.hook('outboundMessage', { message, target }, { trigger: 'agent' });
    requireContinue(answer);
    return answer.context.message.text;
  }

  /**
   * Asks a plugin to summarize a long conversation. Returns the summary and the number of messages it replaces; null if
   * the conversation is short or no plugin summarizes.
   *
   * @param messages without the system prompt
   * @throws VetoError when a required plugin gave no usable summary
   */
  async compact(messages: readonly PlainMessage[]): Promise<{ replaced: number; summary: string } | null> {
    const { compactAfter, keep = 4 } = this.#options;
    if (compactAfter === undefined || messages.length <= compactAfter) return null;
    const known = this.#summary;
    if (known && messages.length - known.upTo <= compactAfter) return { replaced: known.upTo, summary: known.text };
    const upTo = findCutBeforeTools(messages, messages.length - keep);
    const at = new Date().toISOString();
    const answer = await this.session.compact({
      messages: messages.slice(0, upTo).map((message, index) => ({ ...message, id: String(index + 1), at })),
    });
    requireContinue(answer);
    const { summary } = answer;
    if (summary === null || upTo <= 0) return null;
    this.#summary = { upTo, text: summary };
    return { replaced: upTo, summary };
  }
}

type Verdict = Pick<Summary, 'action' | 'cancelledBy' | 'reason' | 'trace'>;

/** @throws VetoError */
function requireContinue({ action, cancelledBy, reason, trace }: Verdict): void {
  if (action === 'cancel') throw new VetoError(cancelledBy, reason, trace.at(-1)?.outcome === 'cancelled');
}

/** Moves the cut before a tool's result, because models reject a result without its call. */
function findCutBeforeTools(messages: readonly PlainMessage[], wanted: number): number {
  let cut = Math.max(0, wanted);
  while (cut > 0 && messages[cut]?.role === 'tool') cut -= 1;
  return cut;
}

const SUMMARY_HEAD = 'Summary of the conversation so far:\n';
/** Formats a summary as a message of the conversation. */
export const formatSummary = (summary: string): string => SUMMARY_HEAD + summary;
export const isSummary = (text: string): boolean => text.startsWith(SUMMARY_HEAD);

/** Formats a tool result for a model: text parts as they are, other parts as JSON. */
export const formatToolResult = ({ content }: ToolResult): string =>
  content.map((part) => (part.type === 'text' ? part.text : JSON.stringify(part))).join('\n');

/** The same for frameworks without failed results: the text says that the tool failed. */
export const formatToolOutcome = (result: ToolResult): string =>
  result.isError ? `The tool failed: ${formatToolResult(result)}` : formatToolResult(result);
