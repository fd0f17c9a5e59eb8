/** A runtime on the adapter for LangChain. Streams with the argument `streamed`. */
import { AIMessage, HumanMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { createAgent } from 'langchain';
import { bulkhead, bulkheadTools } from '../../sdk/adapters/langchain.ts';
import {
  answerMessages,
  type Exchange,
  isStreamed,
  model as modelSettings,
  readOptions,
  SYSTEM,
} from './runtime-protocol.ts';

async function answer(exchange: Exchange): Promise<void> {
  const { session, signal, show } = exchange;
  const model = new ChatOpenAI({
    model: modelSettings.name,
    apiKey: 'none',
    configuration: { baseURL: modelSettings.url },
    maxRetries: 0,
  });
  const agent = createAgent({
    model: bulkhead(session, model, readOptions(exchange)),
    tools: await bulkheadTools(session),
    systemPrompt: SYSTEM,
  });
  const messages = exchange.messages.map(({ role, content }) =>
    role === 'user' ? new HumanMessage(content) : new AIMessage(content),
  );
  if (!isStreamed) {
    const result = await agent.invoke({ messages }, { signal });
    for (const message of result.messages.slice(messages.length)) if (message.type === 'ai') show(message.text);
    return;
  }
  for await (const [chunk] of await agent.stream({ messages }, { streamMode: 'messages', signal }))
    if (chunk.type === 'ai') show(chunk.text);
}

await answerMessages(answer);
