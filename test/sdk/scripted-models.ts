/** Models of agent frameworks that answer as a test says. */
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import type { AIMessage, BaseMessage } from '@langchain/core/messages';
import { type Model, type ModelRequest, Usage } from '@openai/agents';

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

/** A model of the OpenAI Agents SDK. @param answerTo returns the items of the answer */
export const createAgentsModel = (answerTo: (input: ModelRequest['input']) => readonly object[]): Model =>
  ({
    getResponse: async ({ input }: ModelRequest) => ({ usage: new Usage(), output: answerTo(input) }),
    async *getStreamedResponse({ input }: ModelRequest) {
      const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
      yield { type: 'response_done', response: { id: 'r', usage, output: answerTo(input) } };
    },
  }) as unknown as Model;
