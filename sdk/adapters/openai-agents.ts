/** Bulkhead for the OpenAI Agents SDK: `new Runner(bulkhead(session))`, and `tools: await bulkheadTools(session)` of the agent. */
import {
  type Agent,
  type AgentInputItem,
  type AgentOutputItem,
  type AgentOutputType,
  type AgentToolOptionsWithDefault,
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
  type UserMessageItem,
} from '@openai/agents';
import type { Session, ToolResult } from '../session/session.ts';
import type { JudgedAnswer } from './judged-answer.ts';
import {
  type AdapterOptions,
  formatPart,
  formatToolResult,
  type MessageFormat,
  openConversation,
} from './judged-conversation.ts';
import { formatAddress, type MessageFile, readAddress } from './message-files.ts';
import { hasSameArguments, parseArguments, printArguments } from './model-calls.ts';
import { listOfferedTools } from './offered-tools.ts';
import { refuseProviderState } from './provider-state.ts';

type Filter = NonNullable<RunConfig['callModelInputFilter']>;

export interface AgentsOptions extends AdapterOptions {
  /** The provider of the agents' models. Default: OpenAI. */
  readonly modelProvider?: ModelProvider;
}

/**
 * Run settings that make each message of the user a turn of the session: plugins judge it, the system prompt and the model's
 * texts, and the transcript has all of them. Text leaves when it is judged; while no plugin judges messages, at once. Agents
 * must name their models: the provider is an option, because text of a model that the settings do not provide would leave
 * unjudged.
 *
 * @throws VetoError from `run` when a plugin cancels a message
 */
export function bulkhead(session: Session, { modelProvider, ...options }: AgentsOptions = {}): AgentsSettings {
  const provider = new JudgedModelProvider(session, options, modelProvider);
  return {
    modelProvider: provider,
    callModelInputFilter({ modelData, agent }) {
      requireJudgedAgentTools(agent);
      provider.requireJudgedModel(agent);
      return modelData;
    },
  };
}

/** The run settings that `bulkhead` returns. */
export interface AgentsSettings {
  readonly callModelInputFilter: Filter;
  readonly modelProvider: ModelProvider;
}

/**
 * Makes an agent a tool of another one, as `agent.asTool(options)` does, whose runs go through the plugins. Runs of a tool that
 * `asTool` makes inherit the provider of models only, so the adapter refuses such tools.
 *
 * @param settings those of the helper's own session, from `bulkhead`
 */
export function agentTool<Context, Output extends AgentOutputType>(
  settings: AgentsSettings,
  agent: Agent<Context, Output>,
  options: AgentToolOptions<Context, Output>,
): ReturnType<Agent<Context, Output>['asTool']> {
  const { runConfig, runOptions } = options;
  const ownFilter = runOptions?.callModelInputFilter ?? runConfig?.callModelInputFilter;
  const callModelInputFilter: Filter = async (args) => {
    const modelData = await settings.callModelInputFilter(args);
    return ownFilter ? ownFilter({ ...args, modelData }) : modelData;
  };
  const judged = {
    ...options,
    runConfig: { ...runConfig, ...settings, callModelInputFilter },
    ...(runOptions ? { runOptions: { ...runOptions, callModelInputFilter } } : {}),
  };
  return Object.assign(agent.asTool(judged as Parameters<Agent<Context, Output>['asTool']>[0]), { [IS_JUDGED]: true });
}

type AgentToolOptions<Context, Output extends AgentOutputType> =
  | AgentToolOptionsWithDefault<Context, Agent<Context, Output>>
  | Parameters<Agent<Context, Output>['asTool']>[0];

interface AgentOfRun {
  readonly name: string;
  readonly tools: readonly { readonly type: string; readonly name: string }[];
}

/** Marks the tools that `agentTool` made. Copies of a tool keep the mark. */
const IS_JUDGED = Symbol('isJudged');

/** @throws Error for an agent as a tool whose runs no plugin would judge */
function requireJudgedAgentTools({ name, tools }: AgentOfRun): void {
  // The framework says in a registry of its own which tools are agents. In public, only those have `on`, for events of their runs.
  const unjudged = tools.find(
    (one) => one.type === 'function' && typeof (one as { on?: unknown }).on === 'function' && !(IS_JUDGED in one),
  );
  if (unjudged)
    throw new Error(
      `The tool “${unjudged.name}” of the agent “${name}” is an agent, and its run would not go through the plugins. ` +
        'Make it with agentTool(settings, agent, options) in place of agent.asTool(options), with settings from bulkhead(session).',
    );
}

/** Returns the session's tools as Agents SDK tools. Call it again when the tools of the session change. */
export async function bulkheadTools(session: Session): Promise<Tool[]> {
  return (await listOfferedTools(session)).map(({ name, description, parameters, call }) => {
    const offered = tool({
      name,
      description,
      strict: false,
      parameters: { properties: {}, required: [], ...parameters, type: 'object', additionalProperties: true } as never,
      execute: async (input, _context, details) => {
        const result = await call(input, { callId: details?.toolCall?.callId, signal: details?.signal });
        return result.content.some(({ type }) => type === 'image') ? toOutputs(result) : formatOutcome(result);
      },
    });
    // The framework makes underscores of hyphens, and a call by that name is of no tool that the session offers.
    return Object.assign(offered, { name });
  });
}

/** The framework has no failed results: the text says that the tool failed. */
const formatOutcome = (result: ToolResult): string =>
  result.isError ? `The tool failed: ${formatToolResult(result)}` : formatToolResult(result);

const toOutputs = ({ content }: ToolResult) =>
  content.map((part) =>
    part.type === 'image'
      ? { type: 'image' as const, image: { data: part.data, mediaType: part.mimeType } }
      : { type: 'text' as const, text: formatPart(part) },
  );

/** Maximum number of models that were provided for runs which have not asked them yet. */
const PROVIDED_MAX = 1_000;

/** Provides models whose messages the plugins judge. */
class JudgedModelProvider implements ModelProvider {
  readonly #session: Session;
  readonly #options: AdapterOptions;
  #provider: ModelProvider | undefined;
  /** Models that were provided, and neither checked nor asked yet. */
  readonly #provided = new Set<JudgedModel>();

  constructor(session: Session, options: AdapterOptions, provider: ModelProvider | undefined) {
    this.#session = session;
    this.#options = options;
    this.#provider = provider;
  }

  async getModel(name?: string): Promise<Model> {
    this.#provider ??= new OpenAIProvider();
    const model = await this.#provider.getModel(name);
    const judged: JudgedModel = new JudgedModel(model, name ?? 'unknown', this.#session, this.#options, () =>
      this.#provided.delete(judged),
    );
    this.#provided.add(judged);
    const [oldest] = this.#provided;
    // Of runs that failed before they asked the model.
    if (oldest && this.#provided.size > PROVIDED_MAX) this.#provided.delete(oldest);
    return judged;
  }

  /** Checks that the runner got the agent's model from `getModel`, which it calls just before the filter. @throws Error */
  requireJudgedModel({ name, model }: { readonly name: string; readonly model?: unknown }): void {
    const isOfAgent = (one: JudgedModel): boolean => !model || one.name === model;
    const provided = typeof model === 'object' ? undefined : [...this.#provided].findLast(isOfAgent);
    if (provided) {
      this.#provided.delete(provided);
      return;
    }
    throw new Error(
      `The model of the agent “${name}” does not come from Bulkhead's settings, so plugins could not judge its messages. ` +
        'Give the agent the name of its model, and pass the provider: bulkhead(session, { modelProvider }).',
    );
  }
}

type DoneOutput = Extract<StreamEvent, { type: 'response_done' }>['response']['output'];

class JudgedModel implements Model {
  readonly name: string;
  readonly #model: Model;
  readonly #session: Session;
  readonly #options: AdapterOptions;
  readonly #onAsked: () => void;

  constructor(model: Model, name: string, session: Session, options: AdapterOptions, onAsked: () => void) {
    this.name = name;
    this.#model = model;
    this.#session = session;
    this.#options = options;
    this.#onAsked = onAsked;
  }

  get supportsPromptModelSelection(): boolean {
    return this.#model.supportsPromptModelSelection === true;
  }

  getRetryAdvice(args: Parameters<NonNullable<Model['getRetryAdvice']>>[0]) {
    return this.#model.getRetryAdvice?.(args);
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    const judgedItems: AgentOutputItem[] = [];
    for (;;) {
      const { judged, answer } = await this.#prepare(request);
      const { providerData, ...response } = await answer.attempt(async () => {
        const whole = await this.#model.getResponse(judged);
        judgedItems.push(...(await judgeOutput(answer, whole.output)));
        return whole;
      });
      if (await endAnswer(answer, response.output)) continue;
      const isOpen = answer.isFree && !hasCalls(response.output);
      return { ...response, ...(isOpen && providerData ? { providerData } : {}), output: judgedItems };
    }
  }

  async *getStreamedResponse(request: ModelRequest): AsyncIterable<StreamEvent> {
    const judgedItems: AgentOutputItem[] = [];
    let isAgain = true;
    while (isAgain) {
      const { judged, answer } = await this.#prepare(request);
      const text = answer.openStream();
      const isOpen = answer.isFree && !canCall(judged);
      let isWhole = false;
      let streamed = '';
      try {
        for await (const event of this.#model.getStreamedResponse(judged)) {
          if (event.type === 'output_text_delta') {
            streamed += event.delta;
            const delta = await text.push(event.delta);
            if (delta !== '') yield isOpen ? event : { type: 'output_text_delta', delta };
          } else if (event.type === 'response_done') {
            // The client of OpenAI ends an aborted stream as if it were whole.
            request.signal?.throwIfAborted();
            const whole = listTexts(event.response.output).join('');
            // Some texts come without deltas, such as refusals.
            const unstreamed = whole.startsWith(streamed) ? whole.slice(streamed.length) : '';
            const rest = (await text.push(unstreamed)) + (await text.end());
            if (rest !== '' && !answer.isFree) yield { type: 'output_text_delta', delta: rest };
            const known = hasCalls(event.response.output) ? withoutProviderData(event.response) : event.response;
            const response = answer.isFree ? known : withJudgedText(known, text.shown);
            judgedItems.push(...(await judgeCalls(answer, response.output)));
            isAgain = await endAnswer(answer, event.response.output);
            isWhole = true;
            if (!isAgain) yield { type: 'response_done', response: { ...response, output: judgedItems as DoneOutput } };
          } else if (isOpen) {
            yield event;
          } else if (event.type === 'response_started') {
            // The provider's own data may hold the first words, or the arguments of a call.
            yield { type: 'response_started' };
          }
        }
      } finally {
        if (!isWhole) await answer.abandon();
      }
      if (!isWhole) return;
    }
  }

  async #prepare(request: ModelRequest): Promise<{ judged: ModelRequest; answer: JudgedAnswer }> {
    const { input, tools, modelSettings } = request;
    // Runs of agents as tools ask it without the check of their input.
    this.#onAsked();
    refuseProviderState(request);
    refuseProviderState(modelSettings.providerData);
    for (const name of ['extra_body', 'extraBody']) refuseProviderState(modelSettings.providerData?.[name]);
    requireJudgeableTools(tools);
    requireJudgeablePrompt(request);
    const items = typeof input === 'string' ? [{ role: 'user', content: input } as AgentInputItem] : input;
    const isSystem = (item: AgentInputItem): boolean => 'role' in item && item.role === 'system';
    requireJudgeableResults(items, tools);
    requireJudgeableItems(items);
    const own = items.filter(isSystem).map((item) => ('content' in item ? String(item.content) : ''));
    const { systemPrompt, messages, answer } = await openConversation(this.#session).prepare(
      {
        systemPrompt: [request.systemInstructions ?? '', ...own].filter((part) => part !== '').join('\n\n'),
        model: this.name,
        messages: items.filter((item) => !isSystem(item)),
        tools: tools.flatMap((tool) => (tool.type === 'function' ? [tool] : [])),
        signal: request.signal,
      },
      format,
      this.#options,
    );
    const { systemInstructions: _unjudged, ...rest } = request;
    const instructions = systemPrompt === '' ? {} : { systemInstructions: systemPrompt };
    return { judged: { ...rest, ...instructions, input: messages }, answer };
  }
}

type OfferedTool = ModelRequest['tools'][number];

/** Whether this process runs a tool of the framework's own kinds, whose calls and results plugins do not know. */
const isLocal = (tool: OfferedTool): boolean =>
  tool.type === 'shell' ? !isHostedShell(tool) : tool.type === 'computer' || tool.type === 'apply_patch';

const isHostedShell = (tool: OfferedTool): boolean =>
  tool.type === 'shell' && (tool.environment?.type ?? 'local') !== 'local';

/** @throws Error */
function requireJudgeableTools(tools: readonly OfferedTool[]): void {
  const local = tools.find(isLocal);
  if (local)
    throw new Error(
      `The tool “${local.name}” of type ${local.type} runs in this process, and plugins cannot judge its calls and results. ` +
        'Give the agent a function tool in its place: tool({ name, description, parameters, execute }).',
    );
}

/** @throws Error */
function requireJudgeablePrompt({ prompt }: ModelRequest): void {
  if (Object.keys(prompt?.variables ?? {}).length > 0)
    throw new Error(
      'The agent has a stored prompt with variables, which plugins cannot judge. ' +
        'Leave the variables out, and give the agent their texts in its instructions or in the input.',
    );
}

/** Refuses items of type unknown that are messages of users or results of tools, or that name stored ones. @throws Error */
function requireJudgeableItems(items: readonly AgentInputItem[]): void {
  for (const { type, providerData } of items) {
    if (type !== 'unknown') continue;
    const { role, type: kind } = (providerData ?? {}) as { role?: unknown; type?: unknown };
    const isOfAgent = role === undefined || role === 'assistant';
    if (!isOfAgent || kind === 'item_reference' || String(kind).endsWith('_output'))
      throw new Error(
        `The input has an item of type unknown with the provider's data of a ${role ?? kind}, which plugins cannot judge. ` +
          'Pass messages and results of tools as items of their own types.',
      );
  }
}

const LOCAL_RESULTS: ReadonlySet<unknown> = new Set(['computer_call_result', 'apply_patch_call_output']);

/** The provider's own shell has its results before the framework does. @throws Error */
function requireJudgeableResults(items: readonly AgentInputItem[], tools: readonly OfferedTool[]): void {
  const isLocalResult = ({ type }: AgentInputItem): boolean =>
    LOCAL_RESULTS.has(type) || (type === 'shell_call_output' && !tools.some(isHostedShell));
  const local = items.find(isLocalResult);
  if (local)
    throw new Error(
      `The input has a result of type ${local.type}, which plugins cannot judge. Leave the call and its result out of the input.`,
    );
}

/** Judges each text of the model, and leaves out what no plugin judges. */
async function judgeOutput(answer: JudgedAnswer, output: readonly AgentOutputItem[]): Promise<AgentOutputItem[]> {
  const items = await judgeCalls(answer, output);
  const texts = new Map<AgentOutputItem, string>();
  for (const item of items)
    for (const text of listTexts([item])) texts.set(item, (texts.get(item) ?? '') + (await answer.judge(text)));
  if (answer.isFree) return items;
  return items
    .filter(({ type }) => !UNJUDGED.has(type))
    .map((item) => (isMessage(item) ? withText(item, texts.get(item) ?? '') : item));
}

/** Whether the model said or called something. After an empty answer the runner asks it again, in the same turn. */
const hasAnswer = (output: readonly AgentOutputItem[]): boolean =>
  output.some((item) => !isMessage(item) || listTexts([item]).some((text) => text !== ''));

/** Ends the answer. An empty one leaves the turn open: the runner then asks the model again. Returns whether to ask again now. */
async function endAnswer(answer: JudgedAnswer, output: readonly AgentOutputItem[]): Promise<boolean> {
  if (hasAnswer(output)) return answer.end();
  await answer.abandon();
  return false;
}

/** Whether the model may call tools. The provider's own events hold their arguments before plugins judge them. */
const canCall = ({ tools, handoffs }: ModelRequest): boolean => tools.length + handoffs.length > 0;

const hasCalls = (output: readonly AgentOutputItem[]): boolean => output.some(({ type }) => type === 'function_call');

const withoutProviderData = <Part extends { providerData?: unknown }>({ providerData: _unjudged, ...part }: Part) =>
  part;

/**
 * The output without the calls that were refused. Each call has an id of its own: the runner refuses one that comes again, as
 * from models that number them from zero.
 */
async function judgeCalls<Item extends AgentOutputItem>(
  answer: JudgedAnswer,
  output: readonly Item[],
): Promise<Item[]> {
  const passed: Item[] = [];
  for (const item of output) {
    if (item.type !== 'function_call') {
      passed.push(item);
      continue;
    }
    const { callId, name, arguments: text } = item;
    const call = { callId, name, ...parseArguments(text) };
    const judged = await answer.judgeCall(call);
    if (!judged) continue;
    const printed = printArguments(judged, call, text);
    // The provider's own data holds the arguments as they were before.
    const { providerData, ...rest } = item;
    const own = hasSameArguments(judged, call) && providerData ? { providerData } : {};
    passed.push({ ...rest, ...own, callId: judged.callId, arguments: printed } as Item);
  }
  return passed;
}

/** Items with words of the model that no plugin judges. */
const UNJUDGED: ReadonlySet<AgentOutputItem['type']> = new Set(['reasoning', 'unknown']);

/**
 * The message with judged text, and without what no plugin judges: pictures, audio with its transcript, and the provider's data,
 * which describes the text as it was before.
 */
const withText = (
  { providerData: _unjudged, ...message }: AssistantMessageItem,
  text: string,
): AssistantMessageItem => ({ ...message, content: [{ type: 'output_text', text }] });

/** A streamed response whose messages have, together, the text that was shown. */
function withJudgedText<Response extends { output: AgentOutputItem[]; providerData?: unknown }>(
  { providerData: _unjudged, ...response }: Response,
  shown: string,
) {
  const first = response.output.find(isMessage);
  const output: AgentOutputItem[] = [];
  for (const item of response.output) {
    if (item === first) output.push(withText(first, shown));
    else if (!isMessage(item) && !UNJUDGED.has(item.type)) output.push(item);
  }
  return { ...response, output };
}

const listTexts = (output: readonly AgentOutputItem[]): string[] =>
  output.filter(isMessage).flatMap(({ content }) =>
    content.flatMap((part) => {
      if (part.type === 'output_text') return [part.text];
      return part.type === 'refusal' ? [part.refusal] : [];
    }),
  );

const isMessage = (item: AgentOutputItem): item is AssistantMessageItem => 'role' in item && item.role === 'assistant';

type UserPart = Exclude<UserMessageItem['content'], string>[number];

function readFile(part: Exclude<UserPart, { type: 'input_text' }>): MessageFile {
  if (part.type === 'input_image') {
    const file = { name: 'image', mediaType: 'image/*' };
    return { ...file, ...(typeof part.image === 'string' ? readAddress(part.image) : readReference(part.image)) };
  }
  if (part.type === 'input_file') {
    const file = { name: part.filename ?? 'file', mediaType: 'application/octet-stream' };
    if (typeof part.file === 'string') return { ...file, ...readAddress(part.file) };
    return { ...file, ...(part.file && 'url' in part.file ? readAddress(part.file.url) : readReference(part.file)) };
  }
  const audio = { name: 'audio', mediaType: 'audio/*' };
  return { ...audio, ...(typeof part.audio === 'string' ? { data: part.audio } : readReference(part.audio)) };
}

/** A file that only the provider has. */
const readReference = (file: { readonly id: string } | undefined) => ({ isAtProvider: file?.id !== undefined });

const toFilePart = (file: MessageFile): UserPart =>
  file.mediaType.startsWith('image/')
    ? { type: 'input_image', image: formatAddress(file) }
    : {
        type: 'input_file',
        filename: file.name,
        file: file.data === undefined ? { url: file.url ?? '' } : formatAddress(file),
      };

const format: MessageFormat<AgentInputItem> = {
  readUserText(item) {
    if (!('role' in item) || item.role !== 'user') return null;
    if (typeof item.content === 'string') return item.content;
    return item.content.flatMap((part) => (part.type === 'input_text' ? [part.text] : [])).join('\n');
  },
  countTexts(item) {
    if (!('role' in item) || item.role !== 'user') return 0;
    return typeof item.content === 'string' ? 1 : item.content.filter(({ type }) => type === 'input_text').length;
  },
  readFiles(item) {
    if (!('role' in item) || item.role !== 'user' || typeof item.content === 'string') return [];
    return item.content.flatMap((part, index) => (part.type === 'input_text' ? [] : [{ ...readFile(part), index }]));
  },
  replaceContent(item, text, files) {
    if (!('role' in item) || item.role !== 'user') return item;
    const { content } = item;
    if (typeof content === 'string' && files.length === 0) return { ...item, content: text };
    const own = (index: number | undefined) =>
      index === undefined || typeof content === 'string' ? undefined : content[index];
    const parts = files.map((file) => own(file.index) ?? toFilePart(file));
    const texts = typeof content === 'string' ? [] : content.filter(({ type }) => type === 'input_text').reverse();
    // The options of the first part come last, to win.
    return { ...item, content: [{ ...Object.assign({}, ...texts), type: 'input_text', text }, ...parts] };
  },
  readToolResult: (item) =>
    item.type === 'function_call_result'
      ? [{ callId: item.callId, name: item.name, text: readOutput(item.output) }]
      : [],
  replaceToolResult: (item, callId, text) =>
    item.type === 'function_call_result' && item.callId === callId
      ? { ...item, output: { type: 'text' as const, text } }
      : item,
  createRefusals: (calls) => [
    ...calls.map(
      ({ callId, name, arguments: args }): AgentInputItem => ({
        type: 'function_call',
        callId,
        name,
        arguments: JSON.stringify(args),
      }),
    ),
    ...calls.map(
      ({ callId, name, text }): AgentInputItem => ({
        type: 'function_call_result',
        callId,
        name,
        status: 'completed',
        output: { type: 'text', text },
      }),
    ),
  ],
};

function readOutput(output: unknown): string {
  if (typeof output === 'string') return output;
  const { type, text } = output as { type?: unknown; text?: unknown };
  return type === 'text' && typeof text === 'string' ? text : JSON.stringify(output);
}

export { VetoError } from './veto-error.ts';
