/** Models of agent frameworks that answer as a test says. */
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import type { AIMessage, BaseMessage } from '@langchain/core/messages';
import { type Model, type ModelRequest, Usage } from '@openai/agents';
import type { wrapLanguageModel } from 'ai';

/** What the AI SDK asks of a model, beside its two methods. */
export const AI_SDK_MODEL = { specificationVersion: 'v4', provider: 'local', modelId: 'm', supportedUrls: {} };

/** A chat model of LangChain. */
export class ScriptedChatModel extends BaseChatModel {
  readonly #answerTo: (messages: BaseMessage[]) => AIMessage | Promise<AIMessage>;
  /** The messages of the last request, as JSON. */
  asked = '';

  constructor(answerTo: (messages: BaseMessage[]) => AIMessage | Promise<AIMessage>) {
    super({});
    this.#answerTo = answerTo;
  }

  override _llmType(): string {
    return 'scripted';
  }

  override bindTools(): this {
    return this;
  }

  override async _generate(messages: BaseMessage[]) {
    this.asked = JSON.stringify(messages);
    const message = await this.#answerTo(messages);
    return { generations: [{ text: message.text, message }] };
  }
}

/** Of each answer of a model of the OpenAI Agents SDK. */
const USAGE = { inputTokens: 10, outputTokens: 1, totalTokens: 11 };

/** A model of the OpenAI Agents SDK. @param answerTo returns the items of the answer */
export const createAgentsModel = (answerTo: (input: ModelRequest['input']) => readonly object[]): Model =>
  ({
    getResponse: async ({ input }: ModelRequest) => ({ usage: new Usage(USAGE), output: answerTo(input) }),
    async *getStreamedResponse({ input }: ModelRequest) {
      yield { type: 'response_done', response: { id: 'r', usage: USAGE, output: answerTo(input) } };
    },
  }) as unknown as Model;

/**
 * A model of the AI SDK whose answer has several texts, and then perhaps calls.
 *
 * @param breakOff runs after the first text of a stream, which then ends without a reason to finish, or with the error that it throws
 */
export function createModelOfTexts(
  texts: readonly string[],
  calls: readonly object[] = [],
  breakOff?: () => Promise<void>,
) {
  const finishReason = { unified: calls.length > 0 ? 'tool-calls' : 'stop' };
  const usage = { inputTokens: {}, outputTokens: {} };
  const [first = '', ...rest] = texts;
  const toParts = (text: string, id: number) => [
    { type: 'text-start', id: `${id}` },
    { type: 'text-delta', id: `${id}`, delta: text },
    { type: 'text-end', id: `${id}` },
  ];
  // A call between two texts, too.
  const [call, ...more] = calls.map((one) => [one]);
  const others = [call ?? [], ...rest.map((text, index) => toParts(text, index + 1)), ...more].flat();
  const parts = [...toParts(first, 0), ...(breakOff ? [] : [...others, { type: 'finish', finishReason, usage }])];
  return {
    ...AI_SDK_MODEL,
    doGenerate: async () => ({
      content: [{ type: 'text', text: first }, ...(call ?? []), ...rest.map((text) => ({ type: 'text', text }))],
      finishReason,
      usage,
      warnings: [],
    }),
    doStream: async () => ({
      stream: new ReadableStream({
        async pull(controller) {
          const part = parts.shift();
          if (part) {
            controller.enqueue(part);
            return;
          }
          await breakOff?.();
          controller.close();
        },
      }),
    }),
  } as unknown as Parameters<typeof wrapLanguageModel>[0]['model'];
}

/**
 * OpenAI's Responses API, as the `fetch` of a client.
 *
 * @param outputOf returns the items of an answer, which has this number, from 1
 */
export function createResponsesApi(outputOf: (number: number) => readonly ResponseItem[]) {
  /** The input of each request. */
  const asked: object[][] = [];
  const fetch = async (_address: unknown, init?: { readonly body?: unknown }): Promise<Response> => {
    const { input, stream } = JSON.parse(String(init?.body));
    asked.push(input);
    const id = `resp_${asked.length}`;
    const output = outputOf(asked.length).map((item) => ({ status: 'completed', ...item }));
    const usage = { input_tokens: 10, output_tokens: 1, total_tokens: 11 };
    const response = { id, object: 'response', created_at: 1, model: 'm', status: 'completed', output, usage };
    if (!stream) return Response.json(response);
    const events = [
      { type: 'response.created', response: { ...response, output: [] } },
      ...output.flatMap((item, output_index) => toResponseEvents(item, output_index)),
      { type: 'response.completed', response },
    ];
    const body = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  };
  return { asked, fetch };
}

interface ResponseItem {
  readonly type?: string;
  readonly arguments?: string;
  /** The arguments of a custom tool. */
  readonly input?: string;
  readonly content?: readonly { readonly text: string }[];
}

function toResponseEvents(item: ResponseItem, output_index: number): { type: string }[] {
  const isCustom = item.type === 'custom_tool_call';
  const isCall = isCustom || item.type === 'function_call';
  const added = { ...item, ...(isCall ? { [isCustom ? 'input' : 'arguments']: '' } : {}) };
  const event = isCustom ? 'response.custom_tool_call_input.delta' : 'response.function_call_arguments.delta';
  const deltas = isCall
    ? [{ type: event, output_index, delta: isCustom ? item.input : item.arguments }]
    : (item.content ?? []).map(({ text: delta }, content_index) => ({
        type: 'response.output_text.delta',
        output_index,
        content_index,
        delta,
      }));
  return [
    { type: 'response.output_item.added', output_index, item: added } as { type: string },
    ...deltas,
    { type: 'response.output_item.done', output_index, item } as { type: string },
  ];
}
