/** Bulkhead for the OpenAI Agents SDK: `new Runner(bulkhead(session))`, and `tools: await bulkheadTools(session)` in the agent. */
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
  Usage,
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
import { refuseOtherRoles, refuseReplacingOptions } from './message-options.ts';
import { hasSameArguments, parseArguments, printArguments } from './model-calls.ts';
import { listOfferedTools, type ObjectSchema } from './offered-tools.ts';
import { isForeignItem, type ProviderItem } from './provider-items.ts';
import { refuseProviderState } from './provider-state.ts';

type Filter = NonNullable<RunConfig['callModelInputFilter']>;

export interface AgentsOptions extends AdapterOptions {
  /** The provider of the agents' models. Default: OpenAI. */
  readonly modelProvider?: ModelProvider;
}

/**
 * Returns run settings that make each message of the user a turn of the session. Plugins judge the message, the system prompt and
 * the model's texts, and the transcript gets all of them. A text is passed on when it is judged, or at once if no plugin judges
 * messages. Agents must refer to their models by name, and `modelProvider` provides them: plugins could not judge the texts of a model
 * object.
 *
 * @throws VetoError from `run` if a plugin cancels a message
 */
export function bulkhead(session: Session, { modelProvider, ...options }: AgentsOptions = {}): AgentsSettings {
  const provider = new JudgedModelProvider(session, options, modelProvider);
  return {
    modelProvider: provider,
    callModelInputFilter({ modelData, agent }) {
      requireJudgedAgentTools(agent);
      requireProviderSearch(agent);
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
 * Makes an agent a tool of another one, as `agent.asTool(options)` does. Plugins judge the runs of this tool. A tool that `asTool`
 * makes would inherit only the model provider, not the filter, so the adapter refuses it.
 *
 * @param settings of the session of the agent that becomes a tool, from `bulkhead`
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
  readonly tools: readonly {
    readonly type: string;
    readonly name: string;
    readonly providerData?: Readonly<Record<string, unknown>> | undefined;
  }[];
}

/** Marks the tools that `agentTool` made. Copies of a tool keep the mark. */
const IS_JUDGED = Symbol('isJudged');

/** @throws Error for a tool that is an agent and was not made by `agentTool` */
function requireJudgedAgentTools({ name, tools }: AgentOfRun): void {
  // Which tools are agents is in a private registry of the framework. Their only public sign is `on`, for the events of their runs.
  const unjudged = tools.find(
    (one) => one.type === 'function' && typeof (one as { on?: unknown }).on === 'function' && !(IS_JUDGED in one),
  );
  if (unjudged)
    throw new Error(
      `The tool “${unjudged.name}” of the agent “${name}” is an agent, and plugins could not judge its run. ` +
        'Make it with agentTool(settings, agent, options) in place of agent.asTool(options), with settings from bulkhead(session).',
    );
}

/**
 * The framework gives its search for tools the model's arguments, and tools that the search finds may be agents. Neither is in an
 * item that plugins judge.
 *
 * @throws Error for a search for tools that runs in this process
 */
function requireProviderSearch({ name, tools }: AgentOfRun): void {
  const isLocalSearch = ({ type, providerData }: AgentOfRun['tools'][number]): boolean =>
    type === 'hosted_tool' && providerData?.type === 'tool_search' && providerData.execution === 'client';
  if (tools.some(isLocalSearch))
    throw new Error(
      `The agent “${name}” searches for tools in this process, and plugins cannot judge the search. ` +
        "Leave execution: 'client' out of toolSearchTool, or give the agent its tools at once.",
    );
}

/** Returns the session's tools as Agents SDK tools. Call it again when the tools of the session change. */
export async function bulkheadTools(session: Session): Promise<Tool[]> {
  return (await listOfferedTools(session, completeSchema)).map(({ name, description, parameters, call }) => {
    const offered = tool({
      name,
      description,
      strict: false,
      parameters: parameters as never,
      execute: async (input, _context, details) => {
        const result = await call(input, { callId: details?.toolCall?.callId, signal: details?.signal });
        return result.content.some(({ type }) => type === 'image') ? toOutputs(result) : formatOutcome(result);
      },
    });
    // The framework replaces hyphens in names by underscores. The session offers no tool of that name, so restore it.
    return Object.assign(offered, { name });
  });
}

/** Adds the fields that the framework requires in a schema of a tool that is not strict. */
const completeSchema = (schema: ObjectSchema): ObjectSchema => ({
  properties: {},
  required: [],
  ...schema,
  additionalProperties: true,
});

/** The framework has no failed results: the text says that the tool failed. */
const formatOutcome = (result: ToolResult): string =>
  result.isError ? `The tool failed: ${formatToolResult(result)}` : formatToolResult(result);

const toOutputs = ({ content }: ToolResult) =>
  content.map((part) =>
    part.type === 'image'
      ? { type: 'image' as const, image: { data: part.data, mediaType: part.mimeType } }
      : { type: 'text' as const, text: formatPart(part) },
  );

/** Maximum number of provided models that a run has neither checked nor called yet. */
const PROVIDED_MAX = 1_000;

/** Provides models whose messages the plugins judge. */
class JudgedModelProvider implements ModelProvider {
  readonly #session: Session;
  readonly #options: AdapterOptions;
  #provider: ModelProvider | undefined;
  /** Models that `getModel` returned and that were neither checked nor called yet. */
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
    // Drops the models of runs that failed before they called the model.
    if (oldest && this.#provided.size > PROVIDED_MAX) this.#provided.delete(oldest);
    return judged;
  }

  /** Checks that the runner got the agent's model from `getModel`. The runner calls that just before the filter. @throws Error */
  requireJudgedModel({ name, model }: { readonly name: string; readonly model?: unknown }): void {
    const isModelOfAgent = (one: JudgedModel): boolean => !model || one.name === model;
    const provided = typeof model === 'object' ? undefined : [...this.#provided].findLast(isModelOfAgent);
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
  readonly #onCalled: () => void;

  constructor(model: Model, name: string, session: Session, options: AdapterOptions, onCalled: () => void) {
    this.name = name;
    this.#model = model;
    this.#session = session;
    this.#options = options;
    this.#onCalled = onCalled;
  }

  get supportsPromptModelSelection(): boolean {
    return this.#model.supportsPromptModelSelection === true;
  }

  getRetryAdvice(args: Parameters<NonNullable<Model['getRetryAdvice']>>[0]) {
    return this.#model.getRetryAdvice?.(args);
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    const judgedItems: AgentOutputItem[] = [];
    // Of answers whose calls were all refused, too.
    const usage = new Usage();
    for (;;) {
      const { judged, answer } = await this.#prepare(request);
      const { providerData, ...response } = await answer.attempt(async () => {
        const whole = await this.#model.getResponse(judged);
        judgedItems.push(...(await judgeOutput(answer, whole.output)));
        return whole;
      });
      usage.add(response.usage);
      if (await endAnswer(answer, response.output)) continue;
      const isUnjudged = answer.isFree && !hasCalls(response.output);
      return { ...response, ...(isUnjudged && providerData ? { providerData } : {}), usage, output: judgedItems };
    }
  }

  async *getStreamedResponse(request: ModelRequest): AsyncIterable<StreamEvent> {
    const judgedItems: AgentOutputItem[] = [];
    const usage = new Usage();
    let mustAsk = true;
    while (mustAsk) {
      const { judged, answer } = await this.#prepare(request);
      const text = answer.openStream();
      // Whether the provider's events may pass: they contain texts, and the arguments of calls, before plugins judge them.
      const passesEvents = answer.isFree && !canCall(judged);
      let isWhole = false;
      let streamed = '';
      try {
        for await (const event of this.#model.getStreamedResponse(judged)) {
          if (event.type === 'output_text_delta') {
            streamed += event.delta;
            const delta = await text.push(event.delta);
            if (delta !== '') yield passesEvents ? event : { type: 'output_text_delta', delta };
          } else if (event.type === 'response_done') {
            // OpenAI's client ends an aborted stream as if it were complete.
            request.signal?.throwIfAborted();
            const whole = listTexts(event.response.output).join('');
            // Some texts come without deltas, such as refusals.
            const unstreamed = whole.startsWith(streamed) ? whole.slice(streamed.length) : '';
            const rest = (await text.push(unstreamed)) + (await text.end());
            if (rest !== '' && !answer.isFree) yield { type: 'output_text_delta', delta: rest };
            const known = hasCalls(event.response.output) ? withoutProviderData(event.response) : event.response;
            const response = answer.isFree ? known : withJudgedText(known, text.shown);
            const passed = await judgeCalls(answer, response.output);
            judgedItems.push(...leaveOutReasoning(answer, event.response.output, passed));
            mustAsk = await endAnswer(answer, event.response.output);
            isWhole = true;
            const output = judgedItems as DoneOutput;
            usage.add(new Usage(event.response.usage as never));
            if (!mustAsk) yield { type: 'response_done', response: { ...response, usage, output } };
          } else if (passesEvents) {
            yield event;
          } else if (event.type === 'response_started') {
            // Without the provider's data, which may contain the first words or the arguments of a call.
            yield { type: 'response_started' };
          }
        }
        // The runner fails without a response. A veto of what was shown counts more.
        const veto = isWhole ? null : await answer.abandon();
        if (veto) throw veto;
      } catch (error) {
        throw await answer.fail(error);
      } finally {
        if (!isWhole) await answer.abandon();
      }
      if (!isWhole) return;
    }
  }

  async #prepare(request: ModelRequest): Promise<{ judged: ModelRequest; answer: JudgedAnswer }> {
    const { input, tools, modelSettings } = request;
    // The run of an agent as a tool may call the model without the check in the filter.
    this.#onCalled();
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
        tools: tools.flatMap((tool) => (tool.type === 'function' ? [{ ...tool, schema: tool.parameters }] : [])),
        // Filters of handoffs remove the calls and their results from what the next agent gets.
        takesResult: ({ name }) => !request.handoffs.some(({ toolName }) => toolName === name),
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

/** Whether a tool is of a built-in type of the framework and runs in this process. Plugins do not get its calls and results. */
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

/**
 * @throws Error for an item that is both a message and of another type, for one whose data replaces what plugins judge, and for one of
 * type `unknown` that is a user's message or a tool's result, or refers to a stored item
 */
function requireJudgeableItems(items: readonly AgentInputItem[]): void {
  for (const item of items) {
    const { type = 'message', providerData } = item;
    if (type !== 'message' && 'role' in item)
      throw new Error(
        `The input has an item of type ${type} with the role ${item.role}, of which plugins cannot judge both. ` +
          'Leave out the type or the role.',
      );
    if (type === 'unknown') requireJudgeableUnknown(providerData ?? {});
    else if (type === 'function_call_result') requireJudgeableData([item]);
    // Models of the AI SDK make these a message of the agent, with the data of the item as its options.
    else if (isAgentMessage(item) || type === 'function_call' || type === 'reasoning')
      refuseOtherRoles(providerData, DATA_FIELD);
    else if ('role' in item && item.role === 'user') {
      // OpenAI's models also get the data itself as fields of the message.
      const fields = { providerData: { item: providerData } };
      requireJudgeableData([fields, item, ...(typeof item.content === 'string' ? [] : item.content)]);
    }
  }
}

/** @param item the provider's data of an item of type `unknown`, which is the whole item. @throws Error */
function requireJudgeableUnknown(item: ProviderItem): void {
  if (isForeignItem(item))
    throw new Error(
      `The input has an item of type unknown with the provider's data of a ${item.role ?? item.type ?? 'reference'}, which plugins cannot judge. ` +
        'Pass messages and results of tools as items of their own types.',
    );
}

/** Where items have options, for error texts. */
const DATA_FIELD = 'providerData';

/** Models of the AI SDK get the data of an item and its parts as options. @throws Error if they replace what plugins judge */
const requireJudgeableData = (parts: readonly { readonly providerData?: unknown }[]): void =>
  refuseReplacingOptions(
    parts.map(({ providerData }) => providerData),
    DATA_FIELD,
  );

const LOCAL_RESULTS: ReadonlySet<unknown> = new Set(['computer_call_result', 'apply_patch_call_output']);

/** @throws Error for the result of a tool that this process ran. Results of the provider's own shell are allowed. */
function requireJudgeableResults(items: readonly AgentInputItem[], tools: readonly OfferedTool[]): void {
  const isLocalResult = ({ type }: AgentInputItem): boolean =>
    LOCAL_RESULTS.has(type) || (type === 'shell_call_output' && !tools.some(isHostedShell));
  const local = items.find(isLocalResult);
  if (local)
    throw new Error(
      `The input has a result of type ${local.type}, which plugins cannot judge. Leave the call and its result out of the input.`,
    );
}

/**
 * Has plugins judge the calls of the model and its texts, all of them as one, and leaves out items that no plugin can judge. A text
 * that they changed is one message.
 */
async function judgeOutput(answer: JudgedAnswer, output: readonly AgentOutputItem[]): Promise<AgentOutputItem[]> {
  const items = await judgeCalls(answer, output);
  const whole = listTexts(items).join('');
  const shown = await answer.judge(whole);
  const keep = (passed: readonly AgentOutputItem[]) => leaveOutReasoning(answer, output, passed);
  if (answer.isFree) return keep(items);
  if (shown !== whole) return keep(withJudgedText({ output: items }, shown).output);
  return keep(
    items
      .filter(({ type }) => !UNJUDGED.has(type))
      .map((item) => (isMessage(item) ? withText(item, listTexts([item]).join('')) : item)),
  );
}

/** Reasoning, and calls of the provider's tools. OpenAI refuses each without the other, except requests for an approval. */
const isReasoned = (item: AgentOutputItem): boolean =>
  item.type === 'reasoning' || (item.type === 'hosted_tool_call' && item.name !== 'mcp_approval_request');

/**
 * Keeps the reasoning of an answer for the model, and leaves it out if plugins judge messages or refused a call: OpenAI refuses
 * reasoning without what followed it. Calls and messages then lose their ids, by which OpenAI would find that their reasoning is missing.
 *
 * @param passed the items of the answer that the framework may get
 */
function leaveOutReasoning(
  answer: JudgedAnswer,
  output: readonly AgentOutputItem[],
  passed: readonly AgentOutputItem[],
): AgentOutputItem[] {
  if (!output.some(({ type }) => type === 'reasoning')) return [...passed];
  const countCalls = (items: readonly AgentOutputItem[]) => items.filter(({ type }) => type === 'function_call').length;
  const isLeftOut = !answer.isFree || countCalls(passed) < countCalls(output);
  answer.keepReasoning(output.filter(isReasoned), isLeftOut);
  if (!isLeftOut) return [...passed];
  return passed
    .filter((item) => !isReasoned(item))
    .map((item) => {
      if (item.type !== 'function_call' && !isMessage(item)) return item;
      const { id: _paired, ...rest } = item;
      return rest;
    });
}

/** Whether the model returned a text or another item. */
const hasAnswer = (output: readonly AgentOutputItem[]): boolean =>
  output.some((item) => !isMessage(item) || listTexts([item]).some((text) => text !== ''));

/**
 * Ends the answer. An empty answer leaves the turn open, because the runner then calls the model again by itself.
 *
 * @returns true: plugins refused all calls, so call the model again now
 */
async function endAnswer(answer: JudgedAnswer, output: readonly AgentOutputItem[]): Promise<boolean> {
  if (hasAnswer(output)) return answer.end();
  await answer.abandon();
  return false;
}

/** Whether the model may call tools. */
const canCall = ({ tools, handoffs }: ModelRequest): boolean => tools.length + handoffs.length > 0;

const hasCalls = (output: readonly AgentOutputItem[]): boolean => output.some(({ type }) => type === 'function_call');

const withoutProviderData = <Part extends { providerData?: unknown }>({ providerData: _unjudged, ...part }: Part) =>
  part;

/**
 * Has plugins judge the calls, and leaves out those that they refuse. Gives each call an id that is new in the turn: some models number
 * their calls from zero in each answer, and the runner refuses a repeated id.
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
    const { callId, name, namespace, arguments: text } = item;
    const call = { callId, name, namespace, ...parseArguments(text) };
    const judged = await answer.judgeCall(call);
    if (!judged) continue;
    const printed = printArguments(judged, call, text);
    // The provider's data contains the arguments before the change.
    const { providerData, ...rest } = item;
    const own = hasSameArguments(judged, call) && providerData ? { providerData } : {};
    passed.push({ ...rest, ...own, callId: judged.callId, arguments: printed } as Item);
  }
  return passed;
}

/** Items with text of the model that no plugin can judge. */
const UNJUDGED: ReadonlySet<AgentOutputItem['type']> = new Set(['reasoning', 'unknown']);

/**
 * Replaces the content of a message by a judged text. Removes what no plugin can judge: pictures, audio with its transcript, and the
 * provider's data, which contains the text before the change.
 */
const withText = (
  { providerData: _unjudged, ...message }: AssistantMessageItem,
  text: string,
): AssistantMessageItem => ({ ...message, content: [{ type: 'output_text', text }] });

/** Replaces the messages of a response by one message with the judged text. */
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

/** Fields with the content of a part. Providers read the older ones, too, some of them in place of the newer ones. */
const CONTENT_FIELDS = ['image', 'imageUrl', 'file', 'fileData', 'fileUrl', 'fileId', 'audio'] as const;

/** @throws Error for a part with several contents: plugins would judge one, and the provider read another */
function requireOneContent(part: UserPart): void {
  const fields: Readonly<Record<string, unknown>> = part;
  const contents = CONTENT_FIELDS.map((name) => fields[name]).flatMap((value) => {
    const { id, url } = Object(value) as { readonly id?: unknown; readonly url?: unknown };
    return typeof value === 'string' ? [value] : [id, url];
  });
  if (contents.filter((content) => (content ?? '') !== '').length > 1)
    throw new Error(
      `A part of type “${part.type}” has several contents, such as a file and an address, and plugins can judge one. ` +
        'Give each a part of its own.',
    );
}

function readFile(part: Exclude<UserPart, { type: 'input_text' }>): MessageFile {
  requireOneContent(part);
  if (part.type === 'input_image') {
    const file = { name: 'image', mediaType: 'image/*' };
    return { ...file, ...(typeof part.image === 'string' ? readAddress(part.image) : readReference(part.image)) };
  }
  if (part.type === 'input_file') {
    const filename = part.filename ?? part.providerData?.filename;
    const file = { name: typeof filename === 'string' ? filename : 'file', mediaType: 'application/octet-stream' };
    if (typeof part.file === 'string') return { ...file, ...readAddress(part.file) };
    return { ...file, ...(part.file && 'url' in part.file ? readAddress(part.file.url) : readReference(part.file)) };
  }
  const audio = { name: 'audio', mediaType: 'audio/*' };
  return { ...audio, ...(typeof part.audio === 'string' ? { data: part.audio } : readReference(part.audio)) };
}

/** Describes a file by reference: one with an id is stored at the provider only. */
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
    // Some providers refuse an empty text.
    if (text === '' && parts.length > 0) return { ...item, content: parts };
    // Reversed, so that the options of the first part override those of the others.
    return { ...item, content: [{ ...Object.assign({}, ...texts), type: 'input_text', text }, ...parts] };
  },
  readToolCalls: (item) =>
    item.type === 'function_call' ? [{ callId: item.callId, ...parseArguments(item.arguments) }] : [],
  readToolResult: (item) =>
    item.type === 'function_call_result'
      ? [{ callId: item.callId, name: item.name, namespace: item.namespace, text: readOutput(item.output) }]
      : [],
  replaceToolResult: (item, callId, text) =>
    item.type === 'function_call_result' && item.callId === callId
      ? { ...item, output: { type: 'text' as const, text } }
      : item,
  createRefusals: (calls, reasoning) => [
    ...(reasoning as readonly AgentInputItem[]),
    ...calls.map(
      ({ callId, name, namespace, arguments: args }): AgentInputItem => ({
        type: 'function_call',
        callId,
        name,
        ...(namespace === undefined ? {} : { namespace }),
        arguments: JSON.stringify(args),
      }),
    ),
    ...calls.map(
      ({ callId, name, namespace, text }): AgentInputItem => ({
        type: 'function_call_result',
        callId,
        name,
        ...(namespace === undefined ? {} : { namespace }),
        status: 'completed',
        output: { type: 'text', text },
      }),
    ),
  ],
  addReasoning(messages, reasoning) {
    const items: AgentInputItem[] = [];
    for (const item of messages) {
      const own = item.type === 'function_call' ? reasoning.get(item.callId) : undefined;
      // Before the texts of its answer, too.
      if (own) items.splice(items.findLastIndex((one) => !isAgentMessage(one)) + 1, 0, ...(own as AgentInputItem[]));
      items.push(item);
    }
    return items;
  },
};

const isAgentMessage = (item: AgentInputItem): boolean => 'role' in item && item.role === 'assistant';

function readOutput(output: unknown): string {
  if (typeof output === 'string') return output;
  const { type, text } = output as { type?: unknown; text?: unknown };
  return type === 'text' && typeof text === 'string' ? text : JSON.stringify(output);
}

export { VetoError } from './veto-error.ts';
