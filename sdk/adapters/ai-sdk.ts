/** Bulkhead for the Vercel AI SDK: `wrapLanguageModel({ model, middleware: bulkhead(session) })` and `tools: await bulkheadTools(session)`. */
import { dynamicTool, jsonSchema, type LanguageModelMiddleware, type ToolSet } from 'ai';
import type { Session } from '../session/session.ts';
import { formatSummary, formatToolResult, isSummary, type PlainMessage, Turn, type TurnOptions } from './turn.ts';

type Params = Parameters<NonNullable<LanguageModelMiddleware['transformParams']>>[0]['params'];
type Prompt = Params['prompt'];
type Generated = Awaited<ReturnType<NonNullable<LanguageModelMiddleware['wrapGenerate']>>>;
type Streamed = Awaited<ReturnType<NonNullable<LanguageModelMiddleware['wrapStream']>>>;
type StreamPart = Streamed['stream'] extends ReadableStream<infer Part> ? Part : never;

/**
 * A middleware that runs the plugins' hooks on the system prompt, user messages, model messages and long conversations.
 * Streamed text is buffered until it is complete, because plugins receive complete messages.
 *
 * @throws VetoError from `generateText` and `streamText` when a plugin cancels a message
 */
export function bulkhead(session: Session, options: TurnOptions = {}): LanguageModelMiddleware {
  const turn = new Turn(session, options);
  return {
    specificationVersion: 'v4',
    async transformParams({ params, model }) {
      const system = params.prompt
        .flatMap((message) => (message.role === 'system' ? [message.content] : []))
        .join('\n\n');
      const rest = await compactMessages(
        turn,
        params.prompt.filter(({ role }) => role !== 'system'),
      );
      const prompt: Prompt = [
        { role: 'system', content: await turn.systemPrompt(system, model.modelId) },
        ...(await Promise.all(rest.map((message) => runInbound(turn, message)))),
      ];
      return { ...params, prompt: prompt.filter(({ role, content }) => role !== 'system' || content !== '') };
    },
    async wrapGenerate({ doGenerate }) {
      const result = await doGenerate();
      return { ...result, content: await Promise.all(result.content.map((part) => runOutbound(turn, part))) };
    },
    async wrapStream({ doStream }) {
      const result = await doStream();
      return { ...result, stream: result.stream.pipeThrough(bufferText(turn)) };
    },
  };
}

/** Returns the session's tools as AI SDK tools. Call it again when the tools of the session change. */
export async function bulkheadTools(session: Session): Promise<ToolSet> {
  const tools = await session.tools();
  return Object.fromEntries(
    tools.map(({ name, description, parameters }) => [
      name,
      dynamicTool({
        description,
        inputSchema: jsonSchema({ type: 'object', ...parameters }),
        async execute(input, { toolCallId, abortSignal }) {
          const call = { callId: toolCallId, ...(abortSignal ? { signal: abortSignal } : {}) };
          const result = await session.callTool(name, input, call);
          if (result.isError) throw new Error(formatToolResult(result));
          return formatToolResult(result);
        },
      }),
    ]),
  );
}

/** Runs `inboundMessage` on user messages. Other messages ran through their hooks when they were created. */
async function runInbound(turn: Turn, message: Prompt[number]): Promise<Prompt[number]> {
  if (message.role !== 'user') return message;
  const content = message.content.map(async (part) =>
    part.type === 'text' && !isSummary(part.text) ? { ...part, text: await turn.inbound(part.text) } : part,
  );
  return { ...message, content: await Promise.all(content) };
}

async function runOutbound(turn: Turn, part: Generated['content'][number]): Promise<Generated['content'][number]> {
  return part.type === 'text' ? { ...part, text: await turn.outbound(part.text) } : part;
}

async function compactMessages(turn: Turn, messages: Prompt): Promise<Prompt> {
  const compaction = await turn.compact(messages.map(toPlainMessage));
  if (!compaction) return messages;
  const text = formatSummary(compaction.summary);
  return [{ role: 'user', content: [{ type: 'text', text }] }, ...messages.slice(compaction.replaced)];
}

function toPlainMessage({ role, content }: Prompt[number]): PlainMessage {
  if (typeof content === 'string') return { role, text: content };
  const texts = content.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`));
  return { role, text: texts.join('\n') };
}

/** Buffers each text part until its end and runs `outboundMessage` on the complete text. */
function bufferText(turn: Turn): TransformStream<StreamPart, StreamPart> {
  const texts = new Map<string, string>();
  return new TransformStream({
    async transform(part, controller) {
      if (part.type === 'text-delta') {
        texts.set(part.id, (texts.get(part.id) ?? '') + part.delta);
        return;
      }
      if (part.type === 'text-end') {
        const delta = await turn.outbound(texts.get(part.id) ?? '');
        texts.delete(part.id);
        if (delta !== '') controller.enqueue({ type: 'text-delta', id: part.id, delta });
      }
      controller.enqueue(part);
    },
  });
}

export { VetoError } from './turn.ts';
