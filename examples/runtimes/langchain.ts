/** An agent on LangChain.js that uses every plugin its account has installed. */
import { createInterface } from 'node:readline';
import { ChatOpenAI } from '@langchain/openai';
import { createAgent } from 'langchain';
import { bulkhead, bulkheadTools, VetoError } from '../../sdk/adapters/langchain.ts';
import { connect } from '../../sdk/session/session.ts';

const { BULKHEAD_URL = 'http://localhost:4010', BULKHEAD_TOKEN = '', MODEL_URL = '', MODEL = 'm' } = process.env;

const session = await connect({ url: BULKHEAD_URL, token: BULKHEAD_TOKEN }).start({ agentId: 'langchain-example' });
const model = new ChatOpenAI({ model: MODEL, apiKey: 'none', configuration: { baseURL: MODEL_URL } });
const agent = createAgent({
  model: bulkhead(session, model, { compactAfter: 6 }),
  tools: await bulkheadTools(session),
  systemPrompt: 'You help in a bakery.',
});

// Each line of standard input is a turn of one conversation.
const messages: { role: 'user' | 'assistant'; content: string }[] = [];
for await (const line of createInterface({ input: process.stdin })) {
  messages.push({ role: 'user', content: line });
  try {
    const text = (await agent.invoke({ messages })).messages.at(-1)?.text ?? '';
    messages.push({ role: 'assistant', content: text });
    console.log(text);
  } catch (error) {
    if (!(error instanceof VetoError)) throw error;
    messages.pop();
    console.log(`(${error.message})`);
  }
}
