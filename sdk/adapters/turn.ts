/** Runs the hooks of one agent's conversation, for all adapters. */
import { describeCancel } from '../contract/errors.ts';
import type { HookAnswer, Session, Summary, ToolResult } from '../session/session.ts';

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

/** How an adapter reads and writes the messages of its framework. */
interface MessageFormat<Message> {
  /** Returns the message with each text of a user replaced by what `inbound` returns. Other messages were judged earlier. */
  judge(message: Message, inbound: (text: string) => Promise<string>): Promise<Message>;
  toPlain(message: Message): PlainMessage;
  fromSummary(text: string): Message;
}
interface ConversationSummary {
  /** Number of messages that the summary replaces. */
  readonly upTo: number;
  readonly text: string;
}

/** Frameworks send the whole conversation with every model call, so results are cached by text. */
const CACHE_MAX = 1_000;

export class Turn {
  readonly session: Session;
  readonly #options: TurnOptions;
  /** Results of `inboundMessage` by text: every message runs through the plugins once. */
  readonly #inbound = new Map<string, Promise<string>>();
  #summary: ConversationSummary | null = null;

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

  /** Whether a plugin judges the agent's messages now. True if the service does not say: text must not leave unjudged. */
  async hasOutboundHook(): Promise<boolean> {
    const hooks = await this.session.hooks().catch(() => null);
    return hooks === null || hooks.some(({ name }) => name === 'outboundMessage');
  }

  /**
   * Runs `outboundMessage` on a text that was streamed, because no plugin judged messages when the stream began.
   *
   * @throws VetoError when a plugin that was installed meanwhile cancels or changes the text
   */
  async confirmStreamed(text: string): Promise<void> {
    if (text === '') return;
    const answer = await this.#runOutbound(text);
    requireContinue(answer);
    const changedBy = answer.trace.findLast(({ outcome }) => outcome === 'changed');
    if (changedBy) throw new VetoError(changedBy.slug, 'it changes a message that was already being streamed', false);
  }

  /** Runs `outboundMessage` and returns the resulting text. @throws VetoError */
  async outbound(text: string): Promise<string> {
    if (text === '') return text;
    const answer = await this.#runOutbound(text);
    requireContinue(answer);
    return answer.context.message.text;
  }

  #runOutbound(text: string): Promise<HookAnswer<'outboundMessage'>> {
    const message = { id: crypto.randomUUID(), text, attachments: [] };
    const target = this.#options.target ?? 'user';
    return this.session.hook('outboundMessage', { message, target }, { trigger: 'agent' });
  }

  /**
   * Runs `inboundMessage` on the user's messages and replaces the oldest messages of a long conversation by a summary.
   * The summary is added after the messages were judged, so no mark in a text can pass as one.
   *
   * @param messages without the system prompt
   * @throws VetoError
   */
  async prepare<Message>(messages: readonly Message[], format: MessageFormat<Message>): Promise<Message[]> {
    const judge = (message: Message) => format.judge(message, (text) => this.inbound(text));
    const known = this.#findSummary(messages.length);
    const judged = await Promise.all(messages.slice(known?.upTo ?? 0).map(judge));
    if (known) return [format.fromSummary(SUMMARY_HEAD + known.text), ...judged];
    const summary = await this.compact(judged.map(format.toPlain));
    if (!summary) return judged;
    return [format.fromSummary(SUMMARY_HEAD + summary.text), ...judged.slice(summary.upTo)];
  }

  /**
   * Asks a plugin to summarize a long conversation. Null if it is short or no plugin summarizes.
   *
   * @throws VetoError when a required plugin gave no usable summary
   */
  async compact(messages: readonly PlainMessage[]): Promise<ConversationSummary | null> {
    const { compactAfter, keep = 4 } = this.#options;
    if (compactAfter === undefined || messages.length <= compactAfter) return null;
    const upTo = findCutBeforeTools(messages, messages.length - keep);
    const at = new Date().toISOString();
    const answer = await this.session.compact({
      messages: messages.slice(0, upTo).map((message, index) => ({ ...message, id: String(index + 1), at })),
    });
    requireContinue(answer);
    const { summary } = answer;
    if (summary === null || upTo <= 0) return null;
    this.#summary = { upTo, text: summary };
    return this.#summary;
  }

  /** The last summary, while it leaves few enough messages of a conversation of this length. */
  #findSummary(length: number): ConversationSummary | null {
    const { compactAfter } = this.#options;
    const known = this.#summary;
    if (!known || compactAfter === undefined || length <= compactAfter) return null;
    return length - known.upTo <= compactAfter ? known : null;
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

/** Formats a tool result for a model: text parts as they are, other parts as JSON. */
export const formatToolResult = ({ content }: ToolResult): string =>
  content.map((part) => (part.type === 'text' ? part.text : JSON.stringify(part))).join('\n');

/** The same for frameworks without failed results: the text says that the tool failed. */
export const formatToolOutcome = (result: ToolResult): string =>
  result.isError ? `The tool failed: ${formatToolResult(result)}` : formatToolResult(result);
