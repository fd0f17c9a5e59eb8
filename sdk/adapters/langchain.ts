/** Bulkhead for LangChain.js and LangGraph: `createAgent({ model, tools, middleware: [await bulkhead(session)] })`. */
import type { BaseLanguageModelInput } from '@langchain/core/language_models/base';
import { BaseChatModel, type BindToolsInput } from '@langchain/core/language_models/chat_models';
import { type AIMessage, type BaseMessage, HumanMessage, SystemMessage } from '@langchain/core/messages';
import type { ChatResult } from '@langchain/core/outputs';
import type { Runnable } from '@langchain/core/runnables';
import { tool } from '@langchain/core/tools';
import { type AgentMiddleware, createMiddleware } from 'langchain';
import type { Session } from '../session/session.ts';
import { formatToolOutcome, type PlainMessage, Turn, type TurnOptions } from './turn.ts';

/**
 * A middleware that adds the session's tools and runs the plugins' hooks on each model call. While a plugin judges the
 * agent's messages, they are streamed whole, after they are judged. List it last: a middleware behind it that replaces the
 * model would stream unjudged text.
 *
 * @throws VetoError from `agent.invoke` and `agent.stream` when a plugin cancels a message
 */
export async function bulkhead(session: Session, options: TurnOptions = {}): Promise<AgentMiddleware> {
  const turn = new Turn(session, options);
  return createMiddleware({
    name: 'Bulkhead',
    tools: await bulkheadTools(session),
    async wrapModelCall(request, handler) {
      const model = (request.model as { model?: unknown }).model;
      const prompt = await turn.systemPrompt(request.systemMessage.text, typeof model === 'string' ? model : 'unknown');
      const messages = await turn.prepare(request.messages, { judge: judgeMessage, toPlain, fromSummary });
      const isJudged = await turn.hasOutboundHook();
      const answer = await handler({
        ...request,
        ...(isJudged ? { model: new JudgedModel(request.model as BaseChatModel, turn) } : {}),
        systemMessage: new SystemMessage(prompt),
        messages,
      });
      if ('content' in answer) await judgeAnswer(turn, answer);
      return answer;
    },
  }) as AgentMiddleware;
}

/** Returns the session's tools as LangChain tools. */
export async function bulkheadTools(session: Session) {
  return (await session.tools()).map(({ name, description, parameters }) =>
    tool(
      async (input: unknown, config?: { signal?: AbortSignal }) => {
        const result = await session.callTool(name, input, config?.signal ? { signal: config.signal } : {});
        return formatToolOutcome(result);
      },
      { name, description, schema: { ...parameters, type: 'object' } },
    ),
  );
}

/** Calls a model without the agent's callbacks, which stream its text, and returns its message when it is judged. */
class JudgedModel extends BaseChatModel {
  readonly #model: BaseChatModel;
  /** The model, or the model with its tools. */
  readonly #runnable: Runnable<BaseLanguageModelInput, AIMessage>;
  readonly #turn: Turn;

  constructor(model: BaseChatModel, turn: Turn, runnable: Runnable<BaseLanguageModelInput, AIMessage> = model) {
    super({ outputVersion: 'v0' });
    this.#model = model;
    this.#runnable = runnable;
    this.#turn = turn;
  }

  override getName(): string {
    return this.#model.getName();
  }

  override get profile() {
    return this.#model.profile;
  }

  override _llmType(): string {
    return 'bulkhead';
  }

  override getLsParams(options: this['ParsedCallOptions']) {
    return this.#model.getLsParams(options);
  }

  override bindTools(tools: BindToolsInput[], options?: Partial<this['ParsedCallOptions']>): JudgedModel {
    if (!this.#model.bindTools) throw new Error(`${this.getName()} cannot call tools. Use another model.`);
    return new JudgedModel(this.#model, this.#turn, this.#model.bindTools(tools, options));
  }

  override async _generate(messages: BaseMessage[], { signal, stop }: this['ParsedCallOptions']): Promise<ChatResult> {
    const message = await this.#runnable.invoke(messages, {
      callbacks: [],
      ...(signal ? { signal } : {}),
      ...(stop ? { stop } : {}),
    });
    await judgeAnswer(this.#turn, message);
    return { generations: [{ text: message.text, message }] };
  }
}

/** Messages of models that were judged. A copy of one is judged again. */
const judged = new WeakSet<object>();

/** Runs `outboundMessage` on a message of the model and changes its text as the plugins say. */
async function judgeAnswer(turn: Turn, answer: AIMessage): Promise<void> {
  if (judged.has(answer)) return;
  const text = await turn.outbound(answer.text);
  judged.add(answer);
  if (text === answer.text) return;
  const { content } = answer;
  const others = typeof content === 'string' ? [] : content.filter(({ type }) => type !== 'text');
  answer.content = others.length === 0 ? text : [{ type: 'text', text }, ...others];
}

async function judgeMessage(message: BaseMessage, inbound: Turn['inbound']): Promise<BaseMessage> {
  if (!HumanMessage.isInstance(message)) return message;
  const text = await inbound(message.text);
  return text === message.text ? message : new HumanMessage({ ...message.lc_kwargs, content: text });
}

const fromSummary = (text: string): BaseMessage => new HumanMessage(text);

const ROLES: Readonly<Record<string, PlainMessage['role']>> = { human: 'user', ai: 'assistant', tool: 'tool' };

const toPlain = (message: BaseMessage): PlainMessage => ({
  role: ROLES[message.type] ?? 'system',
  text: message.text,
});

export { VetoError } from './turn.ts';
