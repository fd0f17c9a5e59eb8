/** Bulkhead for the OpenAI Agents SDK: `new Runner(bulkhead(session))`, and `tools: await bulkheadTools(session)` of the agent. */
import {
  type AgentInputItem,
  type AgentOutputItem,
  type AssistantMessageItem,
  type Model,
  type ModelProvider,
  type ModelRequest,
  type ModelResponse,
  OpenAIProvider,
  type RunConfig,
  type StreamEvent,
  type Tool,
  tool,
} from '@openai/agents';
import type { Session } from '../session/session.ts';
import { formatToolOutcome, type PlainMessage, Turn, type TurnOptions } from './turn.ts';

type Filter = NonNullable<RunConfig['callModelInputFilter']>;

export interface AgentsOptions extends TurnOptions {
  /** The provider of the agents' models. Default: OpenAI. */
  readonly modelProvider?: ModelProvider;
}

/**
 * Run settings that run the plugins' hooks on each model call. While a plugin judges the agent's messages, they are streamed
 * whole, after they are judged. Agents must name their models: the provider is an option, because text of a model that the
 * settings do not provide would leave unjudged.
 *
 * @throws VetoError from `run` when a plugin cancels a message
 */
export function bulkhead(
  session: Session,
  { modelProvider, ...options }: AgentsOptions = {},
): { callModelInputFilter: Filter; modelProvider: ModelProvider } {
  const turn = new Turn(session, options);
  const provider = new JudgedModelProvider(turn, modelProvider);
  return {
    modelProvider: provider,
    async callModelInputFilter({ modelData, agent }) {
      provider.requireJudgedModel(agent);
      const model = typeof agent.model === 'string' ? agent.model : 'unknown';
      return {
        instructions: await turn.systemPrompt(modelData.instructions ?? '', model),
        input: await turn.prepare(modelData.input, { judge: judgeItem, toPlain, fromSummary }),
      };
    },
  };
}

/** Returns the session's tools as Agents SDK tools. */
export async function bulkheadTools(session: Session): Promise<Tool[]> {
  return (await session.tools()).map(({ name, description, parameters }) =>
    tool({
      name,
      description,
      strict: false,
      parameters: { properties: {}, required: [], ...parameters, type: 'object', additionalProperties: true } as never,
      execute: async (input) => formatToolOutcome(await session.callTool(name, input)),
    }),
  );
}

/** Provides models whose messages the plugins judge. */
class JudgedModelProvider implements ModelProvider {
  readonly #turn: Turn;
  #provider: ModelProvider | undefined;
  /** Models that were provided and whose input was not prepared yet. */
  #provided = 0;

  constructor(turn: Turn, provider: ModelProvider | undefined) {
    this.#turn = turn;
    this.#provider = provider;
  }

  async getModel(name?: string): Promise<Model> {
    this.#provider ??= new OpenAIProvider();
    const model = await this.#provider.getModel(name);
    this.#provided += 1;
    return new JudgedModel(model, this.#turn);
  }

  /** Checks that the runner gets the agent's model from here, which it does just before. @throws Error */
  requireJudgedModel({ name, model }: { readonly name: string; readonly model?: unknown }): void {
    if (typeof model !== 'object' && this.#provided > 0) {
      this.#provided -= 1;
      return;
    }
    throw new Error(
      `The model of the agent “${name}” does not come from Bulkhead's settings, so plugins could not judge its messages. ` +
        'Give the agent the name of its model, and pass the provider: bulkhead(session, { modelProvider }).',
    );
  }
}

class JudgedModel implements Model {
  readonly #model: Model;
  readonly #turn: Turn;

  constructor(model: Model, turn: Turn) {
    this.#model = model;
    this.#turn = turn;
  }

  get supportsPromptModelSelection(): boolean {
    return this.#model.supportsPromptModelSelection === true;
  }

  getRetryAdvice(args: Parameters<NonNullable<Model['getRetryAdvice']>>[0]) {
    return this.#model.getRetryAdvice?.(args);
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    const { providerData, ...response } = await this.#model.getResponse(request);
    const output = await judgeOutput(this.#turn, response.output);
    return { ...response, ...(output === response.output && providerData ? { providerData } : {}), output };
  }

  async *getStreamedResponse(request: ModelRequest): AsyncIterable<StreamEvent> {
    const isJudged = await this.#turn.hasOutboundHook();
    for await (const event of this.#model.getStreamedResponse(request)) {
      if (!isJudged) {
        if (event.type === 'response_done') await confirmOutput(this.#turn, event.response.output);
        yield event;
      } else if (event.type === 'response_done') {
        const output = await judgeOutput(this.#turn, event.response.output);
        for (const text of listTexts(output)) yield { type: 'output_text_delta', delta: text };
        const { providerData: _unjudged, ...response } = event.response;
        yield { type: 'response_done', response: { ...response, output } };
      } else if (event.type === 'response_started') {
        // The provider's own data may hold the first words.
        yield { type: 'response_started' };
      }
    }
  }
}

/** Runs `outboundMessage` on each text of the model. Returns the same array if no plugin changes one. */
async function judgeOutput<Item extends AgentOutputItem>(turn: Turn, output: Item[]): Promise<Item[]> {
  const judged = await Promise.all(output.map((item) => judgeOutputItem(turn, item)));
  return judged.every((item, index) => item === output[index]) ? output : judged;
}

async function judgeOutputItem<Item extends AgentOutputItem>(turn: Turn, item: Item): Promise<Item> {
  if (!isMessage(item)) return item;
  let isChanged = false;
  const parts = item.content.map(async (part) => {
    if (part.type !== 'output_text') return part;
    const text = await turn.outbound(part.text);
    if (text === part.text) return part;
    isChanged = true;
    // The provider's data of the part describes the text that was replaced.
    return { type: 'output_text', text } as const;
  });
  const content = await Promise.all(parts);
  if (!isChanged) return item;
  const { providerData: _replaced, ...message } = item;
  return { ...message, content } as Item;
}

async function confirmOutput(turn: Turn, output: readonly AgentOutputItem[]): Promise<void> {
  for (const text of listTexts(output)) await turn.confirmStreamed(text);
}

const listTexts = (output: readonly AgentOutputItem[]): string[] =>
  output
    .filter(isMessage)
    .flatMap(({ content }) => content.flatMap((part) => (part.type === 'output_text' ? [part.text] : [])));

const isMessage = (item: AgentOutputItem): item is AssistantMessageItem => 'role' in item && item.role === 'assistant';

async function judgeItem(item: AgentInputItem, inbound: Turn['inbound']): Promise<AgentInputItem> {
  if (!('role' in item) || item.role !== 'user') return item;
  if (typeof item.content === 'string') return { ...item, content: await inbound(item.content) };
  const content = item.content.map(async (part) =>
    part.type === 'input_text' ? { ...part, text: await inbound(part.text) } : part,
  );
  return { ...item, content: await Promise.all(content) };
}

const fromSummary = (text: string): AgentInputItem => ({ role: 'user', content: text });

function toPlain(item: AgentInputItem): PlainMessage {
  if (!('role' in item) || item.role === undefined) {
    return { role: item.type === 'function_call_result' ? 'tool' : 'assistant', text: JSON.stringify(item) };
  }
  const { content, role } = item;
  if (typeof content === 'string') return { role, text: content };
  return { role, text: content.map((part) => ('text' in part ? part.text : `[${part.type}]`)).join('\n') };
}

export { VetoError } from './turn.ts';
