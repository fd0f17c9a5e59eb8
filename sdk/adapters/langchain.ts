/** Bulkhead for LangChain.js and LangGraph: `createAgent({ model, tools, middleware: [await bulkhead(session)] })`. */
import { type BaseMessage, HumanMessage, SystemMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { type AgentMiddleware, createMiddleware } from 'langchain';
import type { Session } from '../session/session.ts';
import { formatSummary, formatToolOutcome, isSummary, type PlainMessage, Turn, type TurnOptions } from './turn.ts';

/**
 * A middleware that adds the session's tools and runs the plugins' hooks on each model call.
 *
 * @throws VetoError from `agent.invoke` when a plugin cancels a message
 */
export async function bulkhead(session: Session, options: TurnOptions = {}): Promise<AgentMiddleware> {
  const turn = new Turn(session, options);
  return createMiddleware({
    name: 'Bulkhead',
    tools: await bulkheadTools(session),
    async wrapModelCall(request, handler) {
      const model = (request.model as { model?: unknown }).model;
      const prompt = await turn.systemPrompt(request.systemMessage.text, typeof model === 'string' ? model : 'unknown');
      const messages = await compactMessages(turn, request.messages);
      const answer = await handler({
        ...request,
        systemMessage: new SystemMessage(prompt),
        messages: await Promise.all(messages.map((message) => runInbound(turn, message))),
      });
      // A message that only calls tools is not sent to anyone.
      if (!('content' in answer) || answer.text === '' || answer.tool_calls?.length) return answer;
      answer.content = await turn.outbound(answer.text);
      return answer;
    },
  }) as AgentMiddleware;
}

/** Returns the session's tools as LangChain tools. */
export async function bulkheadTools(session: Session) {
  return (await session.tools()).map(({ name, description, parameters }) =>
    tool(
      async (input: unknown, config?: { signal?: AbortSignal }) => {
        const result = await session.callTool(name, input, config?.signal ? { signal: config.signal } : {});
        return formatToolOutcome(result);
      },
      { name, description, schema: { type: 'object', ...parameters } },
    ),
  );
}

/** Runs `inboundMessage` on user messages. Other messages ran through their hooks when they were created. */
async function runInbound(turn: Turn, message: BaseMessage): Promise<BaseMessage> {
  if (!HumanMessage.isInstance(message) || isSummary(message.text)) return message;
  const text = await turn.inbound(message.text);
  return text === message.text ? message : new HumanMessage({ ...message.lc_kwargs, content: text });
}

async function compactMessages(turn: Turn, messages: BaseMessage[]): Promise<BaseMessage[]> {
  const compaction = await turn.compact(messages.map(toPlainMessage));
  if (!compaction) return messages;
  return [new HumanMessage(formatSummary(compaction.summary)), ...messages.slice(compaction.replaced)];
}

const ROLES: Readonly<Record<string, PlainMessage['role']>> = { human: 'user', ai: 'assistant', tool: 'tool' };

const toPlainMessage = (message: BaseMessage): PlainMessage => ({
  role: ROLES[message.type] ?? 'system',
  text: message.text,
});

export { VetoError } from './turn.ts';
