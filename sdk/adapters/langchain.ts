/** Bulkhead for LangChain.js and LangGraph: `createAgent({ model: bulkhead(session, model), tools: await bulkheadTools(session) })`. */

import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager';
import type { BaseLanguageModelInput } from '@langchain/core/language_models/base';
import { BaseChatModel, type BindToolsInput } from '@langchain/core/language_models/chat_models';
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
  ChatMessage,
  HumanMessage,
  mergeUsageMetadata,
  SystemMessage,
  ToolMessage,
  type UsageMetadata,
} from '@langchain/core/messages';
import { ChatGenerationChunk, type ChatResult } from '@langchain/core/outputs';
import type { Runnable } from '@langchain/core/runnables';
import { DynamicStructuredTool, StructuredTool } from '@langchain/core/tools';
import { encodeBase64 } from '../session/base64.ts';
import type { Json, Session, ToolResult } from '../session/session.ts';
import type { JudgedAnswer } from './judged-answer.ts';
import {
  type AdapterOptions,
  formatPart,
  formatToolResult,
  type MessageFormat,
  openConversation,
} from './judged-conversation.ts';
import { encodeText, formatAddress, type MessageFile, readAddress } from './message-files.ts';
import { listOfferedTools, type OfferedTool } from './offered-tools.ts';
import { isForeignItem, type ProviderItem } from './provider-items.ts';
import { refuseProviderState } from './provider-state.ts';

/**
 * A chat model that makes each message of the user a turn of the session: plugins judge it, the system prompt and the model's
 * texts, and the transcript has all of them. Text leaves when it is judged; while no plugin judges messages, at once.
 *
 * @throws VetoError from `invoke` and `stream` of the model and its agents when a plugin cancels a message
 */
export function bulkhead(session: Session, model: BaseChatModel, options: AdapterOptions = {}): BaseChatModel {
  return new JudgedChatModel({ session, options, model, tools: [] }, model);
}

/** Returns the session's tools as LangChain tools. Call it again when the tools of the session change. */
export async function bulkheadTools(session: Session): Promise<StructuredTool[]> {
  return (await listOfferedTools(session)).map((offered) => new SessionTool(offered));
}

interface Judged {
  readonly session: Session;
  readonly options: AdapterOptions;
  readonly model: BaseChatModel;
  readonly tools: readonly BindToolsInput[];
  /** Whether the model answers with a call, whose arguments are the structured output. The framework sends no result of it. */
  readonly isStructured?: boolean;
}

class JudgedChatModel extends BaseChatModel {
  readonly #judged: Judged;
  /** The model, or the model with its tools. */
  readonly #runnable: Runnable<BaseLanguageModelInput, AIMessage>;

  constructor(judged: Judged, runnable: Runnable<BaseLanguageModelInput, AIMessage>) {
    super({ outputVersion: 'v0' });
    this.#judged = judged;
    this.#runnable = runnable;
  }

  override getName(): string {
    return this.#judged.model.getName();
  }

  override get profile() {
    return this.#judged.model.profile;
  }

  override _llmType(): string {
    return 'bulkhead';
  }

  override getLsParams(options: this['ParsedCallOptions']) {
    return this.#judged.model.getLsParams(options);
  }

  override bindTools(tools: BindToolsInput[], options?: Partial<this['ParsedCallOptions']>): JudgedChatModel {
    const { model } = this.#judged;
    refuseProviderState(options);
    if (!model.bindTools) throw new Error(`${this.getName()} cannot call tools. Use another model.`);
    return new JudgedChatModel({ ...this.#judged, tools }, model.bindTools(tools, options));
  }

  override withStructuredOutput(schema: never, config?: never): never {
    const structured = new JudgedChatModel({ ...this.#judged, isStructured: true }, this.#runnable);
    return super.withStructuredOutput.call(structured, schema, config) as never;
  }

  override async _generate(messages: BaseMessage[], options: this['ParsedCallOptions']): Promise<ChatResult> {
    const texts: string[] = [];
    let usage: UsageMetadata | undefined;
    for (;;) {
      const { input, answer } = await this.#prepare(messages, options);
      const judged = await answer.attempt(async () => {
        // Without callbacks: those of the agent would stream the text before it is judged.
        const message = await this.#runnable.invoke(input, { ...options, callbacks: [] });
        return judgeMessage(
          message,
          answer,
          texts.some((text) => text !== ''),
        );
      });
      // Answers whose calls were all refused count, too. The sum lacks details that only the provider knows.
      usage = usage ? mergeUsageMetadata(usage, judged.usage_metadata) : judged.usage_metadata;
      if (await answer.end()) {
        texts.push(judged.text);
        continue;
      }
      const whole = withTextBefore(texts.join(''), judged);
      if (usage) Object.assign(whole, { usage_metadata: usage });
      return { generations: [{ text: whole.text, message: whole }] };
    }
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    let isAgain = false;
    let blocks = 0;
    do {
      const { input, answer } = await this.#prepare(messages, options);
      let isWhole = false;
      const first = blocks;
      try {
        const chunks = judgeChunks(await this.#runnable.stream(input, { ...options, callbacks: [] }), answer, isAgain);
        for await (const message of chunks) {
          blocks = Math.max(blocks, moveBlocks(message, first));
          const chunk = new ChatGenerationChunk({ text: message.text, message });
          yield chunk;
          await runManager?.handleLLMNewToken(message.text, undefined, undefined, undefined, undefined, { chunk });
        }
        isAgain = await answer.end();
        isWhole = true;
      } catch (error) {
        throw await answer.fail(error);
      } finally {
        if (!isWhole) await answer.abandon();
      }
    } while (isAgain);
  }

  async #prepare(given: BaseMessage[], { signal, ...more }: this['ParsedCallOptions'] & { tools?: BindToolsInput[] }) {
    const { session, options, model, tools, isStructured = false } = this.#judged;
    const { modelKwargs, defaultOptions } = model as { modelKwargs?: unknown; defaultOptions?: unknown };
    for (const one of [more, modelKwargs, defaultOptions]) refuseProviderState(one);
    const name = (model as { model?: unknown }).model;
    const messages = given.map(toJudgeable);
    requireOwnItems(messages.filter((message) => AIMessage.isInstance(message)));
    const isSystem = (message: BaseMessage): boolean => message.type === 'system';
    const system = messages.filter(isSystem);
    const request = {
      systemPrompt: system.map(({ text }) => text).join('\n\n'),
      model: typeof name === 'string' ? name : 'unknown',
      messages: messages.filter((message) => !isSystem(message)),
      tools: [...tools, ...(more.tools ?? [])].map(readTool),
      takesResult: () => !isStructured,
      signal,
    };
    const prepared = await openConversation(session).prepare(request, format, options);
    const head = toSystemMessages(system, request.systemPrompt, prepared.systemPrompt);
    return { input: [...head, ...prepared.messages], answer: prepared.answer };
  }
}

/** Reads a tool of LangChain, or one in the form of OpenAI, which nests its fields. */
function readTool(tool: BindToolsInput) {
  const fields: Readonly<Record<string, unknown>> = 'function' in tool ? tool.function : tool;
  const { name = '', description = '', parameters, schema = parameters } = fields;
  return { name: String(name), description: String(description), schema };
}

/** A tool of a plugin. Its arguments are checked by the service, whose sentences say what a model must correct. */
class SessionTool extends StructuredTool {
  override readonly name: string;
  override readonly description: string;
  override readonly schema: OfferedTool['parameters'];
  readonly #call: OfferedTool['call'];

  constructor({ name, description, parameters, call }: OfferedTool) {
    super({});
    this.name = name;
    this.description = description;
    this.schema = parameters;
    this.#call = call;
  }

  static override lc_name(): string {
    return 'SessionTool';
  }

  override async call(...[input, config]: Parameters<StructuredTool['call']>): Promise<ToolMessage | string> {
    const { toolCall, signal } = (config ?? {}) as { toolCall?: { id?: string; args?: unknown }; signal?: AbortSignal };
    const perform = async (): Promise<ToolMessage | string> => {
      const result = await this.#call(input, { callId: toolCall?.id, signal });
      if (toolCall?.id === undefined) return formatToolResult(result);
      return new ToolMessage({
        content: toContentBlocks(result),
        tool_call_id: toolCall.id,
        name: this.name,
        status: result.isError ? 'error' : 'success',
      });
    };
    // Sends the library's events of a call. Its schema takes all arguments.
    const traced = new DynamicStructuredTool({
      name: this.name,
      description: this.description,
      callbacks: this.callbacks ?? [],
      tags: this.tags ?? [],
      metadata: this.metadata ?? {},
      verbose: this.verbose,
      schema: {},
      func: perform,
    });
    return traced.call(input, config);
  }

  protected override _call(): never {
    throw new Error('call() does not use it');
  }
}

function toContentBlocks(result: ToolResult) {
  if (result.content.every(({ type }) => type !== 'image')) return formatToolResult(result);
  return result.content.map((part) => {
    if (part.type === 'image')
      return { type: 'image_url', image_url: { url: `data:${part.mimeType};base64,${part.data}` } };
    return { type: 'text', text: formatPart(part) };
  });
}

/**
 * Texts and calls as they are judged. Calls of the framework's own tools come at the end, when they are whole.
 *
 * @param isAgain whether the framework joins the answer with one before it, whose calls were all refused
 */
async function* judgeChunks(
  chunks: AsyncIterable<AIMessage>,
  answer: JudgedAnswer,
  isAgain: boolean,
): AsyncGenerator<AIMessageChunk> {
  const text = answer.openStream();
  const calls: BegunCall[] = [];
  let reasoning = null as AIMessageChunk | null;
  let isLeftOut = false;
  let held = null as AIMessageChunk | null;
  for await (const message of chunks) {
    const chunk = message as AIMessageChunk;
    const parts = readCallChunks(chunk);
    const others = await holdOwnCalls(parts, calls, answer);
    const isSame = others.length === parts.length && others.every((part, at) => part === parts[at]);
    const shown = await text.push(chunk.text);
    const own = readReasoning(chunk);
    // The framework, too, joins the parts of an answer this way.
    if (own) reasoning = reasoning?.concat(own) ?? own;
    const isKept = answer.isFree && isSame;
    const isJoined = isAgain && own?.additional_kwargs.reasoning !== undefined;
    // OpenAI would get the reasoning of both answers as that of the last one.
    if (isJoined) chunk.additional_kwargs = { ...chunk.additional_kwargs, reasoning: undefined };
    isLeftOut ||= own !== null && (!isKept || isJoined);
    if (isKept) {
      const [content, waiting] = splitChunk(chunk);
      if (waiting) held = held?.concat(waiting) ?? waiting;
      if (content) yield content;
    } else if (shown !== '' || others.length > 0 || chunk.usage_metadata !== undefined)
      yield toJudgedChunk(chunk, shown, others);
  }
  const rest = await text.end();
  if (rest !== '') yield new AIMessageChunk({ content: rest });
  let isUnchanged = true;
  let isAllRefused = true;
  for (const { part, isHeld, shownId } of calls) {
    const judged = isHeld ? await judgeCallChunk(part, answer) : null;
    if (judged) yield new AIMessageChunk({ content: '', tool_call_chunks: [judged] });
    isUnchanged &&= isHeld ? judged !== null && isSameCall(judged, part) : shownId === part.id;
    isAllRefused &&= isHeld && judged === null;
  }
  if (held && isUnchanged) yield held;
  else if (held && !isAllRefused) {
    // OpenAI's models send these items in place of the judged calls.
    const { output: _items, output_version: _form, ...response_metadata } = held.response_metadata as Fields;
    yield new AIMessageChunk({ content: '', response_metadata });
  }
  answer.keepReasoning(reasoning ? [reasoning] : [], isLeftOut);
}

/**
 * Splits a chunk into what may leave and what waits until its answer's calls are judged: the items of calls, and the provider's data
 * about the answer, which the framework would join with that of the next answer if plugins refuse all calls.
 */
function splitChunk(chunk: AIMessageChunk): [content: AIMessageChunk | null, held: AIMessageChunk | null] {
  // A model that does not stream gives whole messages, which are judged here. `isInstance` is false for another copy's chunks.
  if (chunk.tool_call_chunks === undefined) return [chunk, null];
  const { tool_outputs } = chunk.additional_kwargs as Fields;
  if (Array.isArray(tool_outputs) && tool_outputs.some(({ type }) => type === 'custom_tool_call')) return [null, chunk];
  const { output_version, model_provider, ...response_metadata } = chunk.response_metadata as Fields;
  if (Object.keys(response_metadata).length === 0) return [chunk, null];
  const { content, id, name, additional_kwargs, tool_calls, tool_call_chunks, usage_metadata } = chunk;
  const fields = { content, id, name, additional_kwargs, tool_calls, tool_call_chunks, usage_metadata };
  const rest = new AIMessageChunk({ ...fields, response_metadata: { output_version, model_provider } } as never);
  return [rest, new AIMessageChunk({ content: '', response_metadata })];
}

/** Whether plugins left a call as it came. */
const isSameCall = (judged: CallChunk, part: CallChunk): boolean =>
  judged.id === part.id && judged.args === JSON.stringify(readArguments(part));

/**
 * Moves the blocks of an answer behind those of the one before it, whose calls were all refused: the framework joins blocks of the
 * same index. Returns the number of indexes that are in use.
 */
function moveBlocks(chunk: AIMessageChunk, by: number): number {
  if (typeof chunk.content === 'string') return 0;
  const indexes = chunk.content.map(({ index }) => (typeof index === 'number' ? index + by : undefined));
  chunk.content = chunk.content.map((block, at) =>
    indexes[at] === undefined ? block : { ...block, index: indexes[at] },
  );
  return Math.max(0, ...indexes.map((index) => (index === undefined ? 0 : index + 1)));
}

type CallChunk = NonNullable<AIMessageChunk['tool_call_chunks']>[number];

/** A call whose parts arrive. */
interface BegunCall {
  /** What has arrived of it. */
  part: CallChunk;
  /** Whether it waits until it is whole and judged. */
  readonly isHeld: boolean;
  /** The id that the framework gets. */
  readonly shownId: string | undefined;
}

/** A model that does not stream gives its whole message as one chunk, with whole calls. */
function readCallChunks({ tool_call_chunks: chunks = [], tool_calls: calls = [] }: AIMessageChunk): CallChunk[] {
  if (chunks.length > 0) return chunks;
  return calls.map(({ args, ...call }, index) => ({
    ...call,
    args: JSON.stringify(args),
    index,
    type: 'tool_call_chunk',
  }));
}

/**
 * Adds new calls to `calls`, holds those of the framework's own tools and those that do not say their tool, and returns the parts of
 * the others, each call with an id of its own.
 */
async function holdOwnCalls(
  parts: readonly CallChunk[],
  calls: BegunCall[],
  answer: JudgedAnswer,
): Promise<CallChunk[]> {
  const others: CallChunk[] = [];
  for (const part of parts) {
    const begun = calls.findLast((call) => isContinued(call.part, part));
    if (begun?.isHeld) begun.part = joinCallChunks(begun.part, part);
    else if (begun) others.push(part.id ? withId(part, begun.shownId) : part);
    else if (!part.name || (await answer.isOwn(part.name))) calls.push({ part, isHeld: true, shownId: undefined });
    else {
      const judged = await answer.judgeCall({ callId: part.id ?? '', name: part.name, arguments: {} });
      const shownId = judged?.callId ?? part.id;
      calls.push({ part, isHeld: false, shownId });
      others.push(withId(part, shownId));
    }
  }
  return others;
}

/** Whether a part belongs to a call that has begun. Some models repeat name and id in each part. */
function isContinued(begun: CallChunk, part: CallChunk): boolean {
  if (begun.index !== part.index || (begun.id && part.id && begun.id !== part.id)) return false;
  return !begun.name || !part.name || (begun.name === part.name && Boolean(begun.id) && begun.id === part.id);
}

const withId = (part: CallChunk, id: string | undefined): CallChunk =>
  id === part.id || id === undefined ? part : { ...part, id };

function joinCallChunks(begun: CallChunk, part: CallChunk): CallChunk {
  const id = begun.id || part.id;
  const name = begun.name || part.name;
  return {
    ...part,
    ...begun,
    args: (begun.args ?? '') + (part.args ?? ''),
    ...(id ? { id } : {}),
    ...(name ? { name } : {}),
  };
}

/** Judges a whole call. Returns null if it was refused, or if the framework cannot read it and plugins judge messages. */
async function judgeCallChunk(part: CallChunk, answer: JudgedAnswer): Promise<CallChunk | null> {
  const { id = '', name = '', index } = part;
  const args = readArguments(part);
  // The framework runs no tool for it. Its text leaves as in a message that is not streamed.
  if (args === null)
    return answer.isFree ? { ...part, id: await answer.nameCall(id || crypto.randomUUID(), { name }) } : null;
  const judged = await answer.judgeCall({ callId: id, name, arguments: args as Json });
  if (!judged) return null;
  const shown = { id: judged.callId, name, args: JSON.stringify(judged.arguments), type: 'tool_call_chunk' as const };
  return index === undefined ? shown : { ...shown, index };
}

/** Reads arguments as the framework does, which closes JSON that the model left open. Null: it cannot read them. */
function readArguments(part: CallChunk): object | null {
  // It reads no call without an id.
  const { tool_calls } = new AIMessageChunk({ content: '', tool_call_chunks: [{ ...part, id: 'call' }] });
  return tool_calls?.[0]?.args ?? null;
}

/** The chunk with judged text, and without the provider's own data, which holds the text as it was before. */
function toJudgedChunk({ id, usage_metadata }: AIMessageChunk, text: string, calls: CallChunk[]): AIMessageChunk {
  return new AIMessageChunk({
    content: text,
    ...(id === undefined ? {} : { id }),
    ...(calls.length === 0 ? {} : { tool_call_chunks: calls }),
    ...(usage_metadata === undefined ? {} : { usage_metadata }),
  });
}

/**
 * Judges a whole message of the model.
 *
 * @param isJoined whether a text that came before joins its text, in place of its blocks
 */
async function judgeMessage(message: AIMessage, answer: JudgedAnswer, isJoined: boolean): Promise<AIMessage> {
  const text = await answer.judge(message.text);
  const calls: ToolCalls = [];
  for (const { id = '', ...call } of message.tool_calls ?? []) {
    const judged = await answer.judgeCall({ callId: id, name: call.name, arguments: call.args });
    if (judged) calls.push({ ...call, id: judged.callId, args: judged.arguments as typeof call.args });
  }
  const isKept = answer.isFree && text === message.text && hasSameCalls(calls, message.tool_calls ?? []);
  const reasoning = readReasoning(message);
  answer.keepReasoning(reasoning ? [reasoning] : [], !isKept || isJoined);
  // With the judged arguments also here: values such as infinity have the same JSON as null.
  if (isKept) return Object.assign(message, { tool_calls: calls });
  const { id, invalid_tool_calls, usage_metadata } = message;
  return new AIMessage({
    content: text,
    tool_calls: calls,
    ...(id === undefined ? {} : { id }),
    ...(invalid_tool_calls && answer.isFree ? { invalid_tool_calls } : {}),
    ...(usage_metadata === undefined ? {} : { usage_metadata }),
  });
}

type ToolCalls = NonNullable<AIMessage['tool_calls']>;

/** Whether plugins left the calls as they were. Providers differ in the order of a call's fields. */
const hasSameCalls = (judged: ToolCalls, calls: ToolCalls): boolean =>
  judged.length === calls.length &&
  judged.every(({ id, args }, at) => id === calls[at]?.id && JSON.stringify(args) === JSON.stringify(calls[at]?.args));

/** Text that came before refused calls belongs to the answer. */
const withTextBefore = (before: string, message: AIMessage): AIMessage =>
  before === '' ? message : new AIMessage({ ...message.lc_kwargs, content: before + message.text } as never);

const JUDGED_TYPES: ReadonlySet<string> = new Set(['human', 'ai', 'tool', 'system']);

/** @throws Error for a message that is neither a user's, nor the agent's, a tool's or the system's */
function toJudgeable(message: BaseMessage): BaseMessage {
  if (JUDGED_TYPES.has(message.type)) return message;
  if (ChatMessage.isInstance(message) && (message.role === 'user' || message.role === 'human'))
    return new HumanMessage({ content: message.content, ...(message.id === undefined ? {} : { id: message.id }) });
  throw new Error(
    `The conversation has a message of type “${message.type}”, which plugins cannot judge. ` +
      'Use HumanMessage, AIMessage, ToolMessage or SystemMessage in its place.',
  );
}

/** Results of tools that OpenAI runs: answers of its models have them. */
const HOSTED_OUTPUTS: ReadonlySet<unknown> = new Set(['shell_call_output', 'tool_search_output']);

/**
 * OpenAI's models get the items of an answer and of blocks that are not standard as they are, and a block with a result as that of a
 * call of the same id.
 *
 * @throws Error if a message of the agent has an item, or a result, that plugins judge only in a message of its own
 */
function requireOwnItems(ofAgent: readonly AIMessage[]): void {
  const calls = new Set(ofAgent.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id)));
  for (const { content, response_metadata } of ofAgent) {
    const blocks: readonly Fields[] = Array.isArray(content) ? content.filter(isObject) : [];
    const values = blocks.filter(({ type }) => type === 'non_standard').map(({ value }) => value);
    const items = [(response_metadata as Fields).output, ...values].flat().filter(isObject);
    const foreign = items.find((item: ProviderItem) => isForeignItem(item) && !HOSTED_OUTPUTS.has(item.type));
    const result = blocks.find(
      ({ type, toolCallId }) => type === 'server_tool_call_result' && calls.has(String(toolCallId)),
    );
    const found = foreign ?? result;
    if (found)
      throw new Error(
        `The conversation has a message of the agent that holds a ${found.role ?? found.type ?? 'reference'}, which plugins cannot judge. ` +
          'Pass messages and results of tools as messages of their own.',
      );
  }
}

/**
 * Reads standard blocks, their older form, and those of OpenAI and Anthropic, which nest their fields.
 *
 * @throws Error for a block with several contents: providers differ in which of them they give the model
 */
function readFile(part: Fields): MessageFile {
  const { type, image_url: image } = part;
  const nested = [part.source, part.file, part.input_audio, image].filter(isObject);
  const { data, ...fields }: Fields = Object.assign({}, part, ...nested);
  const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);
  const mediaType =
    text(fields.mimeType) ??
    text(fields.mime_type) ??
    text(fields.media_type) ??
    (isPicture(type) ? 'image/*' : 'application/octet-stream');
  // Which of several names the model gets depends on its provider.
  const { name, filename, title }: Fields = Object(part.metadata);
  const names = [fields.name, fields.filename, fields.title, name, filename, title];
  const given = new Set(names.map(text).filter((one) => one !== undefined));
  const file = { name: given.size === 0 ? String(type ?? 'file') : [...given].join(', '), mediaType };
  const words = text(fields.text) ?? (fields.type === 'text' ? text(data) : undefined);
  const addresses = [text(image), text(fields.url), text(fields.file_data)];
  const id = text(fields.fileId) ?? text(fields.file_id) ?? (fields.source_type === 'id' ? text(fields.id) : undefined);
  const isSame = words !== undefined && (data === words || data === encodeText(words));
  const bytes = data instanceof Uint8Array ? data : text(data);
  const contents = [words, isSame ? undefined : bytes, ...addresses, id, fields.content, fields.fileUri];
  const isTwofold = contents.filter((content) => content !== undefined).length > 1;
  if (nested.length > 1 || isTwofold || nested.some((inner) => hasOtherValues(part, inner)))
    throw new Error(
      `A block of type “${type}” has several contents, such as a text and data, and plugins can judge one. ` +
        'Give each a block of its own.',
    );
  if (words !== undefined) return { ...file, data: encodeText(words) };
  if (data instanceof Uint8Array) return { ...file, data: encodeBase64(data) };
  if (text(data) !== undefined) return { ...file, data: String(data) };
  const address = addresses.find((one) => one !== undefined);
  if (address !== undefined) return { ...file, ...readAddress(address) };
  return { ...file, isAtProvider: id !== undefined };
}

type Fields = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null;
const isPicture = (type: unknown): boolean => type === 'image' || type === 'image_url';

/** Fields with a content or a name. */
const GIVEN = [
  'text',
  'data',
  'url',
  'fileId',
  'file_id',
  'file_data',
  'fileUri',
  'content',
  'name',
  'filename',
] as const;

/** Whether a block has a field that the object in it has with another value. */
const hasOtherValues = (block: Fields, inner: Fields): boolean =>
  GIVEN.some((name) => inner[name] !== undefined && block[name] !== undefined && inner[name] !== block[name]);

const toFilePart = (file: MessageFile) =>
  file.mediaType.startsWith('image/')
    ? { type: 'image_url' as const, image_url: { url: formatAddress(file) } }
    : {
        type: 'file' as const,
        mimeType: file.mediaType,
        metadata: { filename: file.name },
        ...(file.data === undefined ? { url: file.url ?? '' } : { data: file.data }),
      };

type Content = BaseMessage['content'];

/** A text block with a `source_type` is also a file, and providers differ in which of its contents they give the model. */
const isText = (block: Fields): boolean => block.type === 'text' && block.source_type === undefined;

/** Merges the options of text blocks, such as those for caching. If two set the same option, the first one counts. */
function mergeOptions(contents: readonly Content[]): Fields {
  const texts = contents.flatMap((content) => (typeof content === 'string' ? [] : content.filter(isText))).reverse();
  const { type: _text, text: _unjudged, ...options } = Object.assign({}, ...texts);
  return options;
}

/**
 * Returns the app's system message if plugins left its text as it was and it has nothing that they cannot judge; otherwise a message
 * with the judged text and the options of the app's blocks.
 */
function toSystemMessages(own: readonly BaseMessage[], sent: string, judged: string): BaseMessage[] {
  if (judged === '') return [];
  const contents = own.map(({ content }) => content);
  const isJudged = contents.every((content) => typeof content === 'string' || content.every(isText));
  if (own.length === 1 && judged === sent && isJudged) return [...own];
  const options = mergeOptions(contents);
  const isPlain = Object.keys(options).length === 0;
  return [new SystemMessage({ content: isPlain ? judged : [{ ...options, type: 'text', text: judged }] } as never)];
}

/** The text blocks as providers get them: `message.text` lacks those that it takes for files. */
const readText = (content: Content): string =>
  typeof content === 'string'
    ? content
    : content
        .filter(isText)
        .map(({ text }) => text)
        .join('');

/** The text of a result; with other blocks, all of them as JSON, so that plugins judge what the model reads. */
const readResult = ({ content }: ToolMessage): string =>
  typeof content === 'string' || content.every(isText) ? readText(content) : JSON.stringify(content);

/** By its type: `isInstance` is false for a message of another copy of the framework, and models read it. */
const isResult = (message: BaseMessage): message is ToolMessage => message.type === 'tool';

const isAnswer = (message: BaseMessage): message is AIMessage => message.type === 'ai';

const format: MessageFormat<BaseMessage> = {
  readUserText: ({ type, content }) => (type === 'human' ? readText(content) : null),
  countTexts: ({ content }) => (typeof content === 'string' ? 1 : content.filter(isText).length),
  readFiles: ({ content }) =>
    typeof content === 'string'
      ? []
      : content.flatMap((part, index) => (isText(part) ? [] : [{ ...readFile(part), index }])),
  replaceContent(message, text, files) {
    const { content } = message;
    const parts = files.map((file) => (file.index === undefined ? null : content[file.index]) ?? toFilePart(file));
    const options = mergeOptions([content]);
    const isPlain = parts.length === 0 && Object.keys(options).length === 0;
    // Some providers refuse an empty text.
    const blocks = text === '' && parts.length > 0 ? parts : [{ ...options, type: 'text' as const, text }, ...parts];
    return new HumanMessage({ ...message.lc_kwargs, content: isPlain ? text : blocks } as never);
  },
  readToolCalls: (message) =>
    isAnswer(message) ? (message.tool_calls ?? []).map(({ id = '', args }) => ({ callId: id, arguments: args })) : [],
  readToolResult: (message) =>
    isResult(message)
      ? [
          {
            callId: message.tool_call_id,
            name: message.name ?? '',
            text: readResult(message),
            isError: message.status === 'error',
          },
        ]
      : [],
  replaceToolResult: (message, _callId, text) => new ToolMessage({ ...message.lc_kwargs, content: text } as never),
  createRefusals: (calls, [reasoning]) => [
    withReasoning(
      new AIMessage({
        content: '',
        tool_calls: calls.map(({ callId: id, name, arguments: args }) => ({ id, name, args: args as never })),
      }),
      reasoning,
    ),
    ...calls.map(
      ({ callId, name, text }) => new ToolMessage({ content: text, tool_call_id: callId, name, status: 'error' }),
    ),
  ],
  addReasoning: (messages, reasoning) =>
    messages.map((message) => {
      if (!isAnswer(message)) return message;
      const [own] = (message.tool_calls ?? []).flatMap(({ id = '' }) => reasoning.get(id) ?? []);
      return withReasoning(message, own);
    }),
};

type Block = Exclude<Content, string>[number];

/** Blocks of Anthropic's models, also at Amazon, and those of the framework's standard form. */
const REASONING: ReadonlySet<unknown> = new Set(['thinking', 'redacted_thinking', 'reasoning_content', 'reasoning']);

const isReasoning = ({ type, value }: Fields): boolean =>
  // The standard form keeps what it has no type for as a value.
  REASONING.has(type) || (type === 'non_standard' && isObject(value) && REASONING.has(value.type));

/** Returns the reasoning of an answer as a message of its own, with what says how to read it. Null: it has none. */
function readReasoning({ content, additional_kwargs, response_metadata }: AIMessage): AIMessageChunk | null {
  const { output_version, model_provider } = response_metadata as Fields;
  const { reasoning } = additional_kwargs as Fields;
  // In its own form, OpenAI's reasoning is in the field, and blocks repeat its text.
  const isField = output_version !== 'v1' && isObject(reasoning);
  const blocks = isField || typeof content === 'string' ? [] : content.filter(isReasoning);
  if (!isField && blocks.length === 0) return null;
  return new AIMessageChunk({
    content: blocks,
    additional_kwargs: isField ? { reasoning } : {},
    response_metadata: { output_version, model_provider },
  });
}

/** @param reasoning as `readReasoning` returned it */
function withReasoning(message: AIMessage, reasoning: object | undefined): AIMessage {
  if (!reasoning) return message;
  const { content: before, additional_kwargs, response_metadata } = reasoning as AIMessageChunk;
  const { content, tool_calls = [] } = message;
  // An empty array: LangChain sends OpenAI an empty string as a message between the reasoning and its call.
  const text = content === '' ? [] : [{ type: 'text', text: content }];
  return new AIMessage({
    ...message.lc_kwargs,
    tool_calls,
    content: [...(before as Block[]), ...(typeof content === 'string' ? text : content)],
    additional_kwargs: { ...message.additional_kwargs, ...additional_kwargs },
    response_metadata: { ...message.response_metadata, ...response_metadata },
  } as never);
}

export { VetoError } from './veto-error.ts';
