/** Bulkhead for the Vercel AI SDK: `wrapLanguageModel({ model, middleware: bulkhead(session) })` and `tools: await bulkheadTools(session)`. */
import { dynamicTool, jsonSchema, type LanguageModelMiddleware, type ToolSet } from 'ai';
import type { Session, ToolResult } from '../session/session.ts';
import type { JudgedAnswer, JudgedStream } from './judged-answer.ts';
import {
  type AdapterOptions,
  formatPart,
  formatToolResult,
  type MessageFormat,
  openConversation,
} from './judged-conversation.ts';
import { listOfferedTools } from './offered-tools.ts';

type Params = Parameters<NonNullable<LanguageModelMiddleware['transformParams']>>[0]['params'];
type Message = Params['prompt'][number];
type Streamed = Awaited<ReturnType<NonNullable<LanguageModelMiddleware['wrapStream']>>>;
type StreamPart = Streamed['stream'] extends ReadableStream<infer Part> ? Part : never;

/**
 * A middleware that makes each message of the user a turn of the session: plugins judge it, the system prompt and the model's
 * texts, and the transcript has all of them. Text leaves when it is judged; while no plugin judges messages, at once.
 *
 * @throws VetoError from `generateText` and `streamText` when a plugin cancels a message
 */
export function bulkhead(session: Session, options: AdapterOptions = {}): LanguageModelMiddleware {
  const conversation = openConversation(session);
  const answers = new WeakMap<Params, JudgedAnswer>();
  const findAnswer = (params: Params): JudgedAnswer => {
    const answer = answers.get(params);
    if (!answer) throw new Error('Another middleware replaced the judged request. List bulkhead(session) last.');
    return answer;
  };
  return {
    specificationVersion: 'v4',
    async transformParams({ params, model }) {
      const system = params.prompt.flatMap((message) => (message.role === 'system' ? [message.content] : []));
      const request = {
        systemPrompt: system.join('\n\n'),
        model: model.modelId,
        messages: params.prompt.filter(({ role }) => role !== 'system'),
        signal: params.abortSignal,
      };
      const { systemPrompt, messages, answer } = await conversation.prepare(request, format, options);
      const head: Message[] = systemPrompt === '' ? [] : [{ role: 'system', content: systemPrompt }];
      const judged = { ...params, prompt: [...head, ...messages] };
      answers.set(judged, answer);
      return judged;
    },
    async wrapGenerate({ doGenerate, params }) {
      const answer = findAnswer(params);
      const { content, response, ...result } = await doGenerate();
      const judged: typeof content = [];
      for (const part of content) {
        if (part.type === 'tool-call' && !part.providerExecuted) answer.noteCall(part.toolCallId);
        if (part.type === 'text') judged.push({ ...part, text: await answer.judge(part.text) });
        else if (part.type !== 'reasoning' || answer.isFree) judged.push(part);
      }
      await answer.end();
      if (answer.isFree) return { ...result, content: judged, ...(response ? { response } : {}) };
      // The provider's own body and data hold the text as it was before.
      const { body: _unjudged, ...rest } = response ?? {};
      const { providerMetadata: _data, ...known } = result;
      return { ...known, content: judged, response: rest };
    },
    async wrapStream({ doStream, params }) {
      const answer = findAnswer(params);
      const result = await doStream();
      return { ...result, stream: judgeParts(result.stream, answer) };
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
  replaceText(message, text) {
    if (message.role !== 'user') return message;
    const others = message.content.filter(({ type }) => type !== 'text');
    return { ...message, content: text === '' ? others : [{ type: 'text', text }, ...others] };
  },
  readToolResult: ({ role, content }) =>
    role !== 'tool'
      ? []
      : content.flatMap((part) =>
          part.type === 'tool-result'
            ? [{ callId: part.toolCallId, name: part.toolName, text: readOutput(part.output) }]
            : [],
        ),
};

function readOutput(output: { readonly type: string; readonly value?: unknown }): string {
  return typeof output.value === 'string' ? output.value : JSON.stringify(output.value ?? null);
}

/** Passes parts on, and texts as they are judged. */
function judgeParts(parts: ReadableStream<StreamPart>, answer: JudgedAnswer): ReadableStream<StreamPart> {
  const texts = new Map<string, JudgedStream>();
  async function* judge(): AsyncGenerator<StreamPart> {
    let isWhole = false;
    try {
      for await (const part of parts as unknown as AsyncIterable<StreamPart>) {
        if (part.type === 'text-start') texts.set(part.id, answer.openStream());
        if (part.type === 'tool-call' && !part.providerExecuted) answer.noteCall(part.toolCallId);
        if (part.type === 'text-delta') {
          const delta = (await texts.get(part.id)?.push(part.delta)) ?? '';
          if (delta !== '') yield answer.isFree ? part : { type: 'text-delta', id: part.id, delta };
          continue;
        }
        if (part.type === 'text-end') {
          const delta = (await texts.get(part.id)?.end()) ?? '';
          if (delta !== '') yield { type: 'text-delta', id: part.id, delta };
        }
        if (part.type === 'finish') {
          await answer.end();
          isWhole = true;
        }
        if (answer.isFree || !UNJUDGED.has(part.type)) yield part;
      }
    } finally {
      if (!isWhole) await answer.abandon();
    }
  }
  const judged = judge();
  return new ReadableStream<StreamPart>({
    async pull(controller) {
      const { done, value } = await judged.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await judged.return(undefined);
    },
  });
}

/** Parts with words of the model that no plugin judges, such as the provider's own chunks. */
const UNJUDGED: ReadonlySet<StreamPart['type']> = new Set([
  'raw',
  'reasoning-start',
  'reasoning-delta',
  'reasoning-end',
]);

export { VetoError } from './veto-error.ts';
