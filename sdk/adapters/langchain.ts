/** Bulkhead for LangChain.js and LangGraph: `createAgent({ model, tools, middleware: [await bulkhead(session)] })`. */
import { type BaseMessage, HumanMessage, SystemMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { type AgentMiddleware, createMiddleware } from 'langchain';
import type { Session } from '../session/session.ts';
import { asSummary, type PlainMessage, Turn, type TurnOptions, toolAnswer } from './turn.ts';

/**
 * A middleware that brings the session's tools and passes each model call through the plugins.
 *
 * @throws VetoError out of `agent.invoke` when a plugin stops a message
 */
export async function bulkhead(session: Session, options: TurnOptions = {}): Promise<AgentMiddleware> {
  const turn = new Turn(session, options);
  return createMiddleware({
    name: 'Bulkhead',
    tools: await bulkheadTools(session),
    async wrapModelCall(request, handler) {
      const model = (request.model as { model?: unknown }).model;
      const prompt = await turn.systemPrompt(request.systemMessage.text, typeof model === 'string' ? model : 'unknown');
      const messages = await compacted(turn, request.messages);
      const answer = await handler({
        ...request,
        systemMessage: new SystemMessage(prompt),
        messages: await Promise.all(messages.map((message) => passed(turn, message))),
      });
      // A call of tools is no message to anybody.
      if (!('content' in answer) || answer.text === '' || answer.tool_calls?.length) return answer;
      answer.content = await turn.outbound(answer.text);
      return answer;
    },
  }) as AgentMiddleware;
}

/** The session's tools as LangChain's. */
export async function bulkheadTools(session: Session) {
  return (await session.tools()).map(({ name, description, parameters }) =>
    tool(
      async (input: unknown, config?: { signal?: AbortSignal }) => {
        const result = await session.callTool(name, input, config?.signal ? { signal: config.signal } : {});
        return toolAnswer(result);
      },
      { name, description, schema: { type: 'object', ...parameters } },
    ),
  );
}

/** What the user wrote passes the plugins; other messages were seen when they were made. */
async function passed(turn: Turn, message: BaseMessage): Promise<BaseMessage> {
  if (!HumanMessage.isInstance(message) || message.text.startsWith(asSummary(''))) return message;
  const text = await turn.inbound(message.text);
  return text === message.text ? message : new HumanMessage({ ...message.lc_kwargs, content: text });
}

async function compacted(turn: Turn, messages: BaseMessage[]): Promise<BaseMessage[]> {
  const done = await turn.compact(messages.map(plain));
  return done ? [new HumanMessage(asSummary(done.summary)), ...messages.slice(done.replaced)] : messages;
}

const ROLES: Readonly<Record<string, PlainMessage['role']>> = { human: 'user', ai: 'assistant', tool: 'tool' };

const plain = (message: BaseMessage): PlainMessage => ({ role: ROLES[message.type] ?? 'system', text: message.text });

export { VetoError } from './turn.ts';
