/** A runtime on the adapter for the OpenAI Agents SDK. Streams with the argument `streamed`. */
import { Agent, assistant, OpenAIProvider, Runner, user } from '@openai/agents';
import { bulkhead, bulkheadTools } from '../../sdk/adapters/openai-agents.ts';
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
  const modelProvider = new OpenAIProvider({ apiKey: 'none', baseURL: modelSettings.url, useResponses: false });
  const settings = bulkhead(session, { ...readOptions(exchange), modelProvider });
  const runner = new Runner({ ...settings, tracingDisabled: true });
  const agent = new Agent({
    name: 'Baker',
    instructions: SYSTEM,
    model: modelSettings.name,
    tools: await bulkheadTools(session),
  });
  const items = exchange.messages.map(({ role, content }) => (role === 'user' ? user(content) : assistant(content)));
  if (!isStreamed) {
    const { newItems } = await runner.run(agent, items, { signal });
    for (const item of newItems) if (item.type === 'message_output_item') show(item.content);
    return;
  }
  const result = await runner.run(agent, items, { stream: true, signal });
  for await (const text of result.toTextStream()) show(text);
  await result.completed;
}

await answerMessages(answer);
