/** Bulkhead for the Vercel AI SDK: `wrapLanguageModel({ model, middleware: bulkhead(session) })` and `tools: await bulkheadTools(session)`. */
import { dynamicTool, jsonSchema, type LanguageModelMiddleware, type ToolSet } from 'ai';
import type { Session } from '../session/session.ts';
import { asSummary, type PlainMessage, Turn, type TurnOptions, toolText } from './turn.ts';

type Params = Parameters<NonNullable<LanguageModelMiddleware['transformParams']>>[0]['params'];
type Prompt = Params['prompt'];
type Generated = Awaited<ReturnType<NonNullable<LanguageModelMiddleware['wrapGenerate']>>>;
type Streamed = Awaited<ReturnType<NonNullable<LanguageModelMiddleware['wrapStream']>>>;
type StreamPart = Streamed['stream'] extends ReadableStream<infer Part> ? Part : never;

/**
 * Passes each model call through the plugins: the system prompt, what the user wrote, what the model wrote, and long
 * conversations. A stream's text is held back until it is whole, because a plugin judges whole messages.
 *
 * @throws VetoError out of `generateText` and `streamText` when a plugin stops a message
 */
export function bulkhead(session: Session, options: TurnOptions = {}): LanguageModelMiddleware {
  const turn = new Turn(session, options);
  return {
    specificationVersion: 'v4',
    async transformParams({ params, model }) {
      const system = params.prompt
        .flatMap((message) => (message.role === 'system' ? [message.content] : []))
        .join('\n\n');
      const rest = await compacted(
        turn,
        params.prompt.filter(({ role }) => role !== 'system'),
      );
      const prompt: Prompt = [
        { role: 'system', content: await turn.systemPrompt(system, model.modelId) },
        ...(await Promise.all(rest.map((message) => passed(turn, message)))),
      ];
      return { ...params, prompt: prompt.filter(({ role, content }) => role !== 'system' || content !== '') };
    },
    async wrapGenerate({ doGenerate }) {
      const result = await doGenerate();
      return { ...result, content: await Promise.all(result.content.map((part) => judged(turn, part))) };
    },
    async wrapStream({ doStream }) {
      const result = await doStream();
      return { ...result, stream: result.stream.pipeThrough(heldBack(turn)) };
    },
  };
}

/** The session's tools as the AI SDK's. Read them again when the session's stream or MCP tells of a change. */
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
          if (result.isError) throw new Error(toolText(result));
          return toolText(result);
        },
      }),
    ]),
  );
}

/** What the user wrote passes the plugins; other messages were seen when they were made. */
async function passed(turn: Turn, message: Prompt[number]): Promise<Prompt[number]> {
  if (message.role !== 'user') return message;
  const content = message.content.map(async (part) =>
    part.type === 'text' && !part.text.startsWith(asSummary(''))
      ? { ...part, text: await turn.inbound(part.text) }
      : part,
  );
  return { ...message, content: await Promise.all(content) };
}

async function judged(turn: Turn, part: Generated['content'][number]): Promise<Generated['content'][number]> {
  return part.type === 'text' ? { ...part, text: await turn.outbound(part.text) } : part;
}

async function compacted(turn: Turn, messages: Prompt): Promise<Prompt> {
  const done = await turn.compact(messages.map(plain));
  if (!done) return messages;
  const text = asSummary(done.summary);
  return [{ role: 'user', content: [{ type: 'text', text }] }, ...messages.slice(done.replaced)];
}

function plain({ role, content }: Prompt[number]): PlainMessage {
  if (typeof content === 'string') return { role, text: content };
  const texts = content.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`));
  return { role, text: texts.join('\n') };
}

/** Text parts leave at their end, as one piece. */
function heldBack(turn: Turn): TransformStream<StreamPart, StreamPart> {
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
