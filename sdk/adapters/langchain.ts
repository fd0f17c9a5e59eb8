/** Bulkhead for LangChain.js and LangGraph: `createAgent({ model: bulkhead(session, model), tools: await bulkheadTools(session) })`. */

import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager';
import type { BaseLanguageModelInput } from '@langchain/core/language_models/base';
import { BaseChatModel, type BindToolsInput } from '@langchain/core/language_models/chat_models';
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
  HumanMessage,
  SystemMessage,
  ToolMessage,
} from '@langchain/core/messages';
import { ChatGenerationChunk, type ChatResult } from '@langchain/core/outputs';
import type { Runnable } from '@langchain/core/runnables';
import { StructuredTool } from '@langchain/core/tools';
import type { Session, ToolResult } from '../session/session.ts';
import type { JudgedAnswer } from './judged-answer.ts';
import {
  type AdapterOptions,
  formatPart,
  formatToolResult,
  type MessageFormat,
  openConversation,
} from './judged-conversation.ts';
import { listOfferedTools, type OfferedTool } from './offered-tools.ts';

/**
 * A chat model that makes each message of the user a turn of the session: plugins judge it, the system prompt and the model's
 * texts, and the transcript has all of them. Text leaves when it is judged; while no plugin judges messages, at once.
 *
 * @throws VetoError from `invoke` and `stream` of the model and its agents when a plugin cancels a message
 */
export function bulkhead(session: Session, model: BaseChatModel, options: AdapterOptions = {}): BaseChatModel {
  return new JudgedChatModel({ session, options, model }, model);
}

/** Returns the session's tools as LangChain tools. Call it again when the tools of the session change. */
export async function bulkheadTools(session: Session): Promise<StructuredTool[]> {
  return (await listOfferedTools(session)).map((offered) => new SessionTool(offered));
}

interface Judged {
  readonly session: Session;
  readonly options: AdapterOptions;
  readonly model: BaseChatModel;
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
    if (!model.bindTools) throw new Error(`${this.getName()} cannot call tools. Use another model.`);
    return new JudgedChatModel(this.#judged, model.bindTools(tools, options));
  }

  override async _generate(messages: BaseMessage[], options: this['ParsedCallOptions']): Promise<ChatResult> {
    const { input, answer } = await this.#prepare(messages, options);
    // Without callbacks: those of the agent would stream the text before it is judged.
    const message = await this.#runnable.invoke(input, { ...options, callbacks: [] });
    const judged = await judgeMessage(message, answer);
    await answer.end();
    return { generations: [{ text: judged.text, message: judged }] };
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const { input, answer } = await this.#prepare(messages, options);
    const text = answer.openStream();
    let isWhole = false;
    async function* judge(chunks: AsyncIterable<AIMessage>): AsyncGenerator<AIMessageChunk> {
      for await (const chunk of chunks) {
        for (const { id } of (chunk as AIMessageChunk).tool_call_chunks ?? []) if (id) answer.noteCall(id);
        const shown = await text.push(chunk.text);
        if (answer.isFree) yield chunk as AIMessageChunk;
        else if (shown !== '' || hasOtherParts(chunk)) yield toJudgedChunk(chunk as AIMessageChunk, shown);
      }
      const rest = await text.end();
      if (rest !== '') yield new AIMessageChunk({ content: rest });
      await answer.end();
      isWhole = true;
    }
    try {
      for await (const message of judge(await this.#runnable.stream(input, { ...options, callbacks: [] }))) {
        const chunk = new ChatGenerationChunk({ text: message.text, message });
        yield chunk;
        await runManager?.handleLLMNewToken(message.text, undefined, undefined, undefined, undefined, { chunk });
      }
    } finally {
      if (!isWhole) await answer.abandon();
    }
  }

  async #prepare(messages: BaseMessage[], { signal }: this['ParsedCallOptions']) {
    const { session, options, model } = this.#judged;
    const name = (model as { model?: unknown }).model;
    const isSystem = (message: BaseMessage): boolean => message.type === 'system';
    const request = {
      systemPrompt: messages
        .filter(isSystem)
        .map(({ text }) => text)
        .join('\n\n'),
      model: typeof name === 'string' ? name : 'unknown',
      messages: messages.filter((message) => !isSystem(message)),
      signal,
    };
    const prepared = await openConversation(session).prepare(request, format, options);
    const head = prepared.systemPrompt === '' ? [] : [new SystemMessage(prepared.systemPrompt)];
    return { input: [...head, ...prepared.messages], answer: prepared.answer };
  }
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
    const result = await this.#call(input, { callId: toolCall?.id, signal });
    if (toolCall?.id === undefined) return formatToolResult(result);
    return new ToolMessage({
      content: toContentBlocks(result),
      tool_call_id: toolCall.id,
      name: this.name,
      status: result.isError ? 'error' : 'success',
    });
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

/** Whether a chunk carries more than text. */
const hasOtherParts = (chunk: AIMessage): boolean =>
  ((chunk as AIMessageChunk).tool_call_chunks ?? []).length > 0 || chunk.usage_metadata !== undefined;

/** The chunk with judged text, and without the provider's own data, which holds the text as it was before. */
function toJudgedChunk({ id, tool_call_chunks, usage_metadata }: AIMessageChunk, text: string): AIMessageChunk {
  return new AIMessageChunk({
    content: text,
    ...(id === undefined ? {} : { id }),
    ...(tool_call_chunks === undefined ? {} : { tool_call_chunks }),
    ...(usage_metadata === undefined ? {} : { usage_metadata }),
  });
}

/** Judges a whole message of the model. */
async function judgeMessage(message: AIMessage, answer: JudgedAnswer): Promise<AIMessage> {
  for (const { id } of message.tool_calls ?? []) if (id) answer.noteCall(id);
  const text = await answer.judge(message.text);
  if (answer.isFree && text === message.text) return message;
  const { id, tool_calls, invalid_tool_calls, usage_metadata } = message;
  return new AIMessage({
    content: text,
    ...(id === undefined ? {} : { id }),
    ...(tool_calls === undefined ? {} : { tool_calls }),
    ...(invalid_tool_calls === undefined ? {} : { invalid_tool_calls }),
    ...(usage_metadata === undefined ? {} : { usage_metadata }),
  });
}

const format: MessageFormat<BaseMessage> = {
  readUserText: (message) => (HumanMessage.isInstance(message) ? message.text : null),
  replaceText(message, text) {
    const { content } = message;
    const others = typeof content === 'string' ? [] : content.filter(({ type }) => type !== 'text');
    const judged = others.length === 0 ? text : [{ type: 'text' as const, text }, ...others];
    return new HumanMessage({ ...message.lc_kwargs, content: judged } as never);
  },
  readToolResult: (message) =>
    ToolMessage.isInstance(message)
      ? [{ callId: message.tool_call_id, name: message.name ?? 'unknown', text: message.text }]
      : [],
};

export { VetoError } from './veto-error.ts';
