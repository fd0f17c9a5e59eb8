/** Bulkhead for the Vercel AI SDK: `wrapLanguageModel({ model, middleware: bulkhead(session) })` and `tools: await bulkheadTools(session)`. */
import { dynamicTool, jsonSchema, type LanguageModelMiddleware, type ToolSet } from 'ai';
import { encodeBase64 } from '../session/base64.ts';
import type { Session, ToolResult } from '../session/session.ts';
import type { JudgedAnswer } from './judged-answer.ts';
import {
  type AdapterOptions,
  formatPart,
  formatToolResult,
  type MessageFormat,
  openConversation,
} from './judged-conversation.ts';
import { encodeText, formatAddress, type MessageFile, readAddress } from './message-files.ts';
import { refuseOtherRoles, refuseReplacingOptions } from './message-options.ts';
import { parseArguments, printArguments } from './model-calls.ts';
import { listOfferedTools } from './offered-tools.ts';
import { refuseProviderState } from './provider-state.ts';

type Params = Parameters<NonNullable<LanguageModelMiddleware['transformParams']>>[0]['params'];
type Message = Params['prompt'][number];
type FilePart = Extract<Extract<Message, { role: 'user' }>['content'][number], { type: 'file' }>;
type Streamed = Awaited<ReturnType<NonNullable<LanguageModelMiddleware['wrapStream']>>>;
type StreamPart = Streamed['stream'] extends ReadableStream<infer Part> ? Part : never;
type Finished = Pick<Extract<StreamPart, { type: 'finish' }>, 'finishReason'>;

type Content = Awaited<ReturnType<NonNullable<LanguageModelMiddleware['wrapGenerate']>>>['content'][number];
interface JudgedRequest {
  readonly params: Params;
  readonly answer: JudgedAnswer;
  /** For the model to be asked again, because all of its calls were refused. */
  readonly prepareAgain: () => Promise<JudgedRequest>;
}

/**
 * A middleware that makes each message of the user a turn of the session: plugins judge it, the system prompt and the model's
 * texts, and the transcript has all of them. Text leaves when it is judged; while no plugin judges messages, at once.
 *
 * @throws VetoError from `generateText` and `streamText` when a plugin cancels a message
 */
export function bulkhead(session: Session, options: AdapterOptions = {}): LanguageModelMiddleware {
  const conversation = openConversation(session);
  const requests = new WeakMap<Params, JudgedRequest>();
  const findRequest = (params: Params): JudgedRequest => {
    const request = requests.get(params);
    if (!request) throw new Error('Another middleware replaced the judged request. List bulkhead(session) last.');
    return request;
  };
  return {
    specificationVersion: 'v4',
    async transformParams({ params, model }) {
      for (const ofProvider of Object.values(params.providerOptions ?? {})) refuseProviderState(ofProvider);
      for (const message of params.prompt) requireJudgeableOptions(message);
      const system = params.prompt.filter((message) => message.role === 'system');
      const request = {
        systemPrompt: system.map(({ content }) => content).join('\n\n'),
        model: model.modelId,
        messages: params.prompt.filter(({ role }) => role !== 'system'),
        // A tool of a provider's type may run in the app, under the name of a tool of the session.
        tools: (params.tools ?? []).map((tool) =>
          tool.type === 'function' ? { ...tool, schema: tool.inputSchema } : { name: tool.name },
        ),
        signal: params.abortSignal,
      };
      const prepare = async (): Promise<JudgedRequest> => {
        const { systemPrompt, messages, answer } = await conversation.prepare(request, format, options);
        const head = toSystemMessages(system, request.systemPrompt, systemPrompt);
        return { params: { ...params, prompt: [...head, ...messages] }, answer, prepareAgain: prepare };
      };
      const prepared = await prepare();
      requests.set(prepared.params, prepared);
      return prepared.params;
    },
    async wrapGenerate({ doGenerate, params, model }) {
      const judged: Content[] = [];
      let request = findRequest(params);
      const ask = (answer: JudgedAnswer, generate: () => ReturnType<typeof doGenerate>) =>
        answer.attempt(async () => {
          const result = await generate();
          judged.push(...(await judgeContent(result.content, answer)));
          return result;
        });
      let generated = await ask(request.answer, doGenerate);
      while (await endAnswer(request.answer, generated)) {
        const again = await request.prepareAgain();
        const { usage } = generated;
        generated = await ask(again.answer, () => model.doGenerate(again.params));
        generated = { ...generated, usage: addUsage(usage, generated.usage) };
        request = again;
      }
      const { response, providerMetadata, ...result } = generated;
      const { isFree } = request.answer;
      // The provider's own body and data hold texts and calls as they were before.
      const { body, ...head } = response ?? {};
      const isOpen = isFree && !generated.content.some(isCall);
      return {
        ...result,
        content: judged,
        response: isOpen ? { ...head, body } : head,
        ...(isFree && providerMetadata ? { providerMetadata } : {}),
      };
    },
    async wrapStream({ doStream, params, model }) {
      const request = findRequest(params);
      const result = await request.answer.attempt(doStream);
      const ask = async ({ answer, params: again }: JudgedRequest, cancelled: AbortSignal) => {
        const abortSignal = again.abortSignal ? AbortSignal.any([again.abortSignal, cancelled]) : cancelled;
        const { stream } = await answer.attempt(async () => {
          abortSignal.throwIfAborted();
          return model.doStream({ ...again, abortSignal });
        });
        return stream;
      };
      return { ...result, stream: judgeStream(result.stream, request, ask) };
    },
  };
}

/** Returns the session's tools as AI SDK tools. Call it again when the tools of the session change. */
export async function bulkheadTools(session: Session): Promise<ToolSet> {
  const tools = await listOfferedTools(session);
  return Object.fromEntries(
    tools.map(({ name, description, parameters, call }) => [
      name,
      dynamicTool({
        description,
        inputSchema: jsonSchema(parameters),
        async execute(input, { toolCallId, abortSignal }) {
          const result = await call(input, { callId: toolCallId, signal: abortSignal });
          if (result.isError) throw new Error(formatToolResult(result));
          return result.content.some(({ type }) => type === 'image') ? result : formatToolResult(result);
        },
        toModelOutput: ({ output }) =>
          typeof output === 'string' ? { type: 'text', value: output } : toModelContent(output as ToolResult),
      }),
    ]),
  );
}

const toModelContent = ({ content }: ToolResult) => ({
  type: 'content' as const,
  value: content.map((part) =>
    part.type === 'image'
      ? { type: 'file' as const, data: { type: 'data' as const, data: part.data }, mediaType: part.mimeType }
      : { type: 'text' as const, text: formatPart(part) },
  ),
});

const format: MessageFormat<Message> = {
  readUserText: ({ role, content }) =>
    role === 'user' ? content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n') : null,
  countTexts: ({ role, content }) => (role === 'user' ? content.filter(({ type }) => type === 'text').length : 0),
  readFiles: ({ role, content }) =>
    role !== 'user'
      ? []
      : content.flatMap((part, index) => (part.type === 'text' ? [] : [{ ...readFile(part), index }])),
  replaceContent(message, text, files) {
    if (message.role !== 'user') return message;
    const { content } = message;
    const parts = files.map((file) => (file.index === undefined ? null : content[file.index]) ?? toFilePart(file));
    const texts = content.flatMap((part) => (part.type === 'text' ? [part] : []));
    const options = mergeOptions(texts);
    return { ...message, content: text === '' ? parts : [{ type: 'text', text, ...options }, ...parts] };
  },
  readToolCalls: ({ role, content }) =>
    role !== 'assistant'
      ? []
      : content.flatMap((part) =>
          part.type === 'tool-call' ? [{ callId: part.toolCallId, arguments: part.input }] : [],
        ),
  readToolResult: ({ role, content }) =>
    role !== 'tool'
      ? []
      : content.flatMap((part) =>
          part.type === 'tool-result'
            ? [
                {
                  callId: part.toolCallId,
                  name: part.toolName,
                  text: readOutput(part.output),
                  isError: FAILED.has(part.output.type),
                },
              ]
            : [],
        ),
  replaceToolResult(message, callId, text) {
    if (message.role !== 'tool') return message;
    const content = message.content.map((part) =>
      part.type === 'tool-result' && part.toolCallId === callId
        ? { ...part, output: { type: 'text' as const, value: text } }
        : part,
    );
    return { ...message, content };
  },
  createRefusals: (calls, reasoning) => [
    {
      role: 'assistant',
      content: [
        ...(reasoning as readonly ReasoningPart[]),
        ...calls.map(({ callId, name, arguments: input }) => ({
          type: 'tool-call' as const,
          toolCallId: callId,
          toolName: name,
          input,
        })),
      ],
    },
    {
      role: 'tool',
      content: calls.map(({ callId, name, text }) => ({
        type: 'tool-result',
        toolCallId: callId,
        toolName: name,
        output: { type: 'error-text', value: text },
      })),
    },
  ],
  addReasoning: (messages, reasoning) =>
    messages.map((message) => {
      if (message.role !== 'assistant') return message;
      const own = message.content.flatMap((part) =>
        part.type === 'tool-call' ? (reasoning.get(part.toolCallId) ?? []) : [],
      );
      return { ...message, content: [...(own as readonly ReasoningPart[]), ...message.content] };
    }),
};

type AgentPart = Extract<Message, { role: 'assistant' }>['content'][number];
type ReasoningPart = Extract<AgentPart, { type: 'reasoning' }>;
type ProviderMetadata = Extract<Content, { type: 'reasoning' }>['providerMetadata'];

const toReasoningPart = (text: string, providerOptions: ProviderMetadata): ReasoningPart => ({
  type: 'reasoning',
  text,
  ...(providerOptions ? { providerOptions } : {}),
});

type Options = Message['providerOptions'];

/** Merges the options of messages or parts, such as those for caching. If two set the same option, the first one counts. */
function mergeOptions(parts: readonly { readonly providerOptions?: Options }[]): {
  providerOptions?: NonNullable<Options>;
} {
  const providerOptions = Object.assign({}, ...parts.map((part) => part.providerOptions).reverse());
  return Object.keys(providerOptions).length > 0 ? { providerOptions } : {};
}

type SystemMessage = Extract<Message, { role: 'system' }>;

/** Returns the app's system messages if plugins left their text as it was, otherwise one with the judged text and their options. */
function toSystemMessages(own: readonly SystemMessage[], sent: string, judged: string): readonly SystemMessage[] {
  if (judged === '') return [];
  return judged === sent ? own : [{ role: 'system', content: judged, ...mergeOptions(own) }];
}

/** Where messages have options, for error texts. */
const OPTIONS_FIELD = 'providerOptions; in messages from a browser, it is in providerMetadata';

/** @throws Error if a message has options that replace what plugins judge */
function requireJudgeableOptions({ role, content, providerOptions }: Message): void {
  if (role === 'assistant') {
    refuseOtherRoles(providerOptions, OPTIONS_FIELD);
    return;
  }
  const parts = typeof content === 'string' ? [] : content;
  refuseReplacingOptions([providerOptions, ...parts.map((part) => part.providerOptions)], OPTIONS_FIELD);
}

/** @param part may be of a kind that a later version of the framework adds */
function readFile({ type, data, filename, mediaType = 'application/octet-stream' }: FilePart): MessageFile {
  const file = { name: filename ?? type, mediaType };
  if (data?.type === 'url') return { ...file, ...readAddress(data.url.href), mediaType };
  if (data?.type === 'text') return { ...file, data: encodeText(data.text) };
  if (data?.type === 'reference') return { ...file, isAtProvider: true };
  if (data?.type !== 'data') return file;
  return { ...file, data: typeof data.data === 'string' ? data.data : encodeBase64(data.data) };
}

const toFilePart = (file: MessageFile): FilePart => ({
  type: 'file',
  filename: file.name,
  mediaType: file.mediaType,
  data:
    file.data === undefined ? { type: 'url', url: new URL(formatAddress(file)) } : { type: 'data', data: file.data },
});

type ToolOutput = Extract<Extract<Message, { role: 'tool' }>['content'][number], { type: 'tool-result' }>['output'];

const FAILED: ReadonlySet<ToolOutput['type']> = new Set(['error-text', 'error-json', 'execution-denied']);

function readOutput(output: ToolOutput): string {
  if (output.type === 'execution-denied') return output.reason ?? 'The user denied the call.';
  return typeof output.value === 'string' ? output.value : JSON.stringify(output.value);
}

/** The parts of an answer after the plugins' changes. A text that they changed is one part. */
async function judgeContent(content: readonly Content[], answer: JudgedAnswer): Promise<Content[]> {
  const texts = content.filter((part) => part.type === 'text');
  const whole = texts.map(({ text }) => text).join('');
  const shown = await answer.judge(whole);
  const judged: Content[] = [];
  for (const part of content) {
    if (part.type === 'tool-call') judged.push(...(await judgeCall(part, answer)));
    else if (part.type !== 'text' || shown === whole) judged.push(part);
    else if (part === texts[0]) judged.push({ ...part, text: shown });
  }
  const reasoning = content.flatMap((part) =>
    part.type === 'reasoning' ? [toReasoningPart(part.text, part.providerMetadata)] : [],
  );
  answer.keepReasoning(reasoning, !answer.isFree);
  const isRefused = content.some(isCall) && !judged.some(isCall);
  // In the framework's history, it would stand without the calls that it led to, which some providers refuse.
  if (answer.isFree && isRefused) return judged.filter(({ type }) => type !== 'reasoning');
  if (answer.isFree) return judged;
  return judged.flatMap((part): Content[] => {
    if (part.type === 'text') return [{ type: 'text', text: part.text }];
    return PASSED.has(part.type) ? [part] : [];
  });
}

interface CallPart {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: string;
  readonly providerExecuted?: boolean | undefined;
}

type Usage = Extract<StreamPart, { type: 'finish' }>['usage'];

/** Adds the counts of two requests. The provider's own counts are those of the last one. */
function addUsage(earlier: Usage, last: Usage): Usage {
  const inputTokens = addCounts(earlier.inputTokens, last.inputTokens);
  return { ...last, inputTokens, outputTokens: addCounts(earlier.outputTokens, last.outputTokens) };
}

type Counts = Readonly<Record<string, number | undefined>>;

const addCounts = <Form extends Counts>(earlier: Form, last: Form): Form => {
  const names = Object.keys({ ...earlier, ...last });
  const add = (name: string): number | undefined =>
    (earlier[name] ?? last[name]) === undefined ? undefined : (earlier[name] ?? 0) + (last[name] ?? 0);
  return Object.fromEntries(names.map((name) => [name, add(name)])) as Form;
};

const withUsageOf = ({ usage }: RefusedAnswer, part: StreamPart): StreamPart =>
  part.type === 'finish' ? { ...part, usage: addUsage(usage, part.usage) } : part;

/** Whether the framework performs the call. */
const isCall = (part: Content): boolean => part.type === 'tool-call' && !part.providerExecuted;

/** Empty: the call was refused. */
async function judgeCall<Part extends CallPart>(part: Part, answer: JudgedAnswer): Promise<Part[]> {
  if (part.providerExecuted) return [part];
  const { toolCallId: callId, toolName: name, input } = part;
  const call = { callId, name, ...parseArguments(input) };
  const judged = await answer.judgeCall(call);
  return judged ? [{ ...part, toolCallId: judged.callId, input: printArguments(judged, call, input) }] : [];
}

/** Reasons to finish of a model that failed, or whose stream ended early. */
const UNFINISHED: ReadonlySet<string> = new Set<Finished['finishReason']['unified']>(['error', 'interrupted']);

/**
 * Ends the answer. That of a model that failed leaves its turn open, so that the same message can be answered again.
 *
 * @returns whether the model is to be asked again
 */
async function endAnswer(answer: JudgedAnswer, { finishReason }: Finished): Promise<boolean> {
  if (!UNFINISHED.has(finishReason.unified)) return answer.end();
  await answer.abandon();
  return false;
}

/** Passes parts on, and texts and calls as they are judged. */
function judgeStream(
  stream: ReadableStream<StreamPart>,
  request: JudgedRequest,
  ask: (request: JudgedRequest, cancelled: AbortSignal) => Promise<ReadableStream<StreamPart>>,
): ReadableStream<StreamPart> {
  let reader = stream.getReader();
  const cancellation = new AbortController();
  async function* judge(): AsyncGenerator<StreamPart> {
    let refused = yield* judgeParts(reader, request, null);
    for (let again = request; refused; ) {
      again = await again.prepareAgain();
      reader = (await ask(again, cancellation.signal)).getReader();
      // Some models ignore the abort.
      if (cancellation.signal.aborted) await endParts(reader);
      refused = yield* judgeParts(reader, again, refused);
    }
  }
  const judged = judge();
  return new ReadableStream<StreamPart>({
    async pull(controller) {
      const { done, value } = await judged.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel(reason) {
      cancellation.abort(reason);
      // Before the generator is ended, which may wait for the model's next part.
      await endParts(reader, reason);
      await judged.return(undefined);
    },
  });
}

type PartReader = ReadableStreamDefaultReader<StreamPart>;

/** Ends the model's request. A stream that failed needs no end. */
const endParts = (reader: PartReader, reason?: unknown): Promise<void> => reader.cancel(reason).catch(() => undefined);

/** An answer whose calls were all refused. */
interface RefusedAnswer {
  /** Of this answer and those before it. */
  readonly usage: Usage;
}

/**
 * @param refused the answer before this one
 * @returns the answer, if the model is to be asked again
 */
async function* judgeParts(
  reader: PartReader,
  { answer, params }: JudgedRequest,
  refused: RefusedAnswer | null,
): AsyncGenerator<StreamPart, RefusedAnswer | null> {
  const canCall = (params.tools ?? []).length > 0;
  const text = answer.openStream();
  /** The id of the only text part that leaves, if plugins judge messages: they judge all texts of the answer as one. */
  let shownId: string | null = null;
  /** Calls of the answer. They leave when its text is judged, so that no tool runs for a text that a plugin cancels. */
  const calls: Extract<StreamPart, { type: 'tool-call' }>[] = [];
  /** Ids of calls whose arguments arrive. Null: they are not shown before they are judged. */
  const inputs = new Map<string, string | null>();
  const reasoning = new ReasoningParts();
  /** Ends of reasoning that is followed by calls, until it is known whether plugins refuse all of these. */
  let ends: Extract<StreamPart, { type: 'reasoning-end' }>[] = [];
  const endReasoning = function* (isRefused = false): Generator<StreamPart> {
    // Without the provider's data, providers take it for no part of the conversation. They refuse reasoning without what followed it.
    for (const end of ends) yield isRefused ? { ...end, providerMetadata: {} } : end;
    ends = [];
  };
  const endText = async function* (): AsyncGenerator<StreamPart> {
    const delta = await text.end();
    if (shownId === null) return;
    if (delta !== '') yield { type: 'text-delta', id: shownId, delta };
    yield { type: 'text-end', id: shownId };
  };
  let isWhole = false;
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      const part = refused ? withUsageOf(refused, next.value) : next.value;
      // The stream that the framework reads has begun already.
      if (refused && part.type === 'stream-start') continue;
      const delta = part.type === 'text-delta' ? await text.push(part.delta) : '';
      if (isText(part) && !answer.isFree) {
        if (shownId === null) yield { type: 'text-start', id: part.id };
        shownId ??= part.id;
        if (delta !== '') yield { type: 'text-delta', id: shownId, delta };
        continue;
      }
      if (part.type === 'tool-input-start' && !part.providerExecuted)
        inputs.set(
          part.id,
          (await answer.isOwn(part.toolName)) ? null : await answer.nameCall(part.id, { name: part.toolName }),
        );
      if (isToolInput(part)) {
        const id = inputs.get(part.id);
        if (id === null) continue;
        yield* endReasoning();
        yield id === undefined ? part : { ...part, id };
        continue;
      }
      if (part.type === 'tool-call' && !part.providerExecuted) {
        calls.push(part);
        continue;
      }
      if (isReasoning(part)) reasoning.add(part);
      // The framework has no two open parts of the same id.
      if (part.type === 'reasoning-start' && ends.some(({ id }) => id === part.id)) yield* endReasoning();
      if (part.type === 'reasoning-end' && answer.isFree && canCall) {
        ends.push(part);
        continue;
      }
      if (part.type === 'error') answer.hasFailed = true;
      if (part.type === 'finish') {
        yield* endText();
        const passed: StreamPart[] = [];
        for (const call of calls) passed.push(...(await judgeCall(call, answer)));
        yield* endReasoning(calls.length > 0 && passed.length === 0);
        yield* passed;
        answer.keepReasoning(reasoning.list(), !answer.isFree);
        const isAgain = await endAnswer(answer, part);
        isWhole = true;
        if (isAgain) return { usage: part.usage };
      }
      // The provider's own chunks hold the arguments of a call before plugins judge them.
      const isOpen = answer.isFree && !(canCall && part.type === 'raw');
      if (isOpen && !isReasoning(part)) yield* endReasoning();
      if (isOpen) yield part;
      else if (PASSED.has(part.type)) yield withoutProviderData(part);
    }
    // A stream without a reason to finish broke off, which the framework may take for its end.
    if (answer.isFree) await text.end();
    yield* endReasoning();
    return null;
  } catch (error) {
    throw await answer.fail(error);
  } finally {
    if (!isWhole) await answer.abandon();
    await endParts(reader);
  }
}

/**
 * Parts that leave while plugins judge messages, besides judged texts. Reasoning, files, sources and the provider's own parts are not
 * among them; calls are, which are judged or of the provider's own tools, and so is what these tools got.
 */
const PASSED: ReadonlySet<StreamPart['type'] | Content['type']> = new Set([
  'tool-call',
  'tool-approval-request',
  'tool-result',
  'stream-start',
  'response-metadata',
  'finish',
  'error',
]);

type TextPart = Extract<StreamPart, { type: `text-${string}` }>;

const isText = (part: StreamPart): part is TextPart => part.type.startsWith('text-');

type StreamedReasoning = Extract<StreamPart, { type: `reasoning-${'start' | 'delta' | 'end'}` }>;

const isReasoning = (part: StreamPart): part is StreamedReasoning =>
  part.type === 'reasoning-start' || part.type === 'reasoning-delta' || part.type === 'reasoning-end';

/** The parts of an answer's reasoning, as its stream brings them. */
class ReasoningParts {
  readonly #parts: { text: string; metadata: ProviderMetadata }[] = [];
  readonly #begun = new Map<string, { text: string; metadata: ProviderMetadata }>();

  add(part: StreamedReasoning): void {
    if (part.type === 'reasoning-start') {
      const begun = { text: '', metadata: part.providerMetadata };
      this.#parts.push(begun);
      this.#begun.set(part.id, begun);
      return;
    }
    const begun = this.#begun.get(part.id);
    if (!begun) return;
    if (part.type === 'reasoning-delta') begun.text += part.delta;
    begun.metadata = part.providerMetadata ?? begun.metadata;
  }

  list(): ReasoningPart[] {
    return this.#parts.map(({ text, metadata }) => toReasoningPart(text, metadata));
  }
}

type ToolInputPart = Extract<StreamPart, { type: `tool-input-${string}` }>;

const isToolInput = (part: StreamPart): part is ToolInputPart => part.type.startsWith('tool-input-');

/** Without the provider's own data about the answer, which may hold the text as it was before. */
function withoutProviderData(part: StreamPart): StreamPart {
  if (part.type !== 'finish') return part;
  const { providerMetadata: _unjudged, ...rest } = part;
  return rest;
}

export { VetoError } from './veto-error.ts';
