/** Bulkhead for the Vercel AI SDK: `wrapLanguageModel({ model, middleware: bulkhead(session) })` and `tools: await bulkheadTools(session)`. */
import { dynamicTool, jsonSchema, type LanguageModelMiddleware, type ToolSet } from 'ai';
import type { Session } from '../session/session.ts';
import { formatToolResult, type PlainMessage, Turn, type TurnOptions } from './turn.ts';

type Params = Parameters<NonNullable<LanguageModelMiddleware['transformParams']>>[0]['params'];
type Prompt = Params['prompt'];
type Generated = Awaited<ReturnType<NonNullable<LanguageModelMiddleware['wrapGenerate']>>>;
type Streamed = Awaited<ReturnType<NonNullable<LanguageModelMiddleware['wrapStream']>>>;
type StreamPart = Streamed['stream'] extends ReadableStream<infer Part> ? Part : never;

/**
 * A middleware that runs the plugins' hooks on the system prompt, user messages, model messages and long conversations.
 * While a plugin judges the agent's messages, streamed text is buffered until it is complete and judged.
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
      const messages = params.prompt.filter(({ role }) => role !== 'system');
      const prompt: Prompt = [
        { role: 'system', content: await turn.systemPrompt(system, model.modelId) },
        ...(await turn.prepare<Prompt[number]>(messages, { judge: judgeMessage, toPlain, fromSummary })),
      ];
      return { ...params, prompt: prompt.filter(({ role, content }) => role !== 'system' || content !== '') };
    },
    async wrapGenerate({ doGenerate }) {
      const result = await doGenerate();
      return { ...result, content: await Promise.all(result.content.map((part) => runOutbound(turn, part))) };
    },
    async wrapStream({ doStream }) {
      const [isJudged, result] = await Promise.all([turn.hasOutboundHook(), doStream()]);
      return { ...result, stream: result.stream.pipeThrough(isJudged ? bufferText(turn) : passText(turn)) };
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
        inputSchema: jsonSchema({ ...parameters, type: 'object' }),
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

async function judgeMessage(message: Prompt[number], inbound: Turn['inbound']): Promise<Prompt[number]> {
  if (message.role !== 'user') return message;
  const content = message.content.map(async (part) =>
    part.type === 'text' ? { ...part, text: await inbound(part.text) } : part,
  );
  return { ...message, content: await Promise.all(content) };
}

const fromSummary = (text: string): Prompt[number] => ({ role: 'user', content: [{ type: 'text', text }] });

async function runOutbound(turn: Turn, part: Generated['content'][number]): Promise<Generated['content'][number]> {
  return part.type === 'text' ? { ...part, text: await turn.outbound(part.text) } : part;
}

function toPlain({ role, content }: Prompt[number]): PlainMessage {
  if (typeof content === 'string') return { role, text: content };
  const texts = content.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`));
  return { role, text: texts.join('\n') };
}

/** Buffers each text part until its end and runs `outboundMessage` on the complete text. */
function bufferText(turn: Turn): TransformStream<StreamPart, StreamPart> {
  const texts = new Map<string, string>();
  return new TransformStream({
    async transform(part, controller) {
      // The provider's own chunks hold the text too.
      if (part.type === 'raw') return;
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

/** Passes text on at once, and runs `outboundMessage` at its end for plugins that were installed meanwhile. */
function passText(turn: Turn): TransformStream<StreamPart, StreamPart> {
  const texts = new Map<string, string>();
  return new TransformStream({
    async transform(part, controller) {
      if (part.type === 'text-delta') texts.set(part.id, (texts.get(part.id) ?? '') + part.delta);
      if (part.type === 'text-end') await turn.confirmStreamed(texts.get(part.id) ?? '');
      controller.enqueue(part);
    },
  });
}

export { VetoError } from './turn.ts';
