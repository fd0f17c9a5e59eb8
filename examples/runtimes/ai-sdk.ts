/** An agent on the Vercel AI SDK that uses every plugin its account has installed. */
import { createInterface } from 'node:readline';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, stepCountIs, wrapLanguageModel } from 'ai';
import { bulkhead, bulkheadTools, VetoError } from '../../sdk/adapters/ai-sdk.ts';
import { connect } from '../../sdk/session/session.ts';

const { BULKHEAD_URL = 'http://localhost:4010', BULKHEAD_TOKEN = '', MODEL_URL = '', MODEL = 'm' } = process.env;

const session = await connect({ url: BULKHEAD_URL, token: BULKHEAD_TOKEN }).start({ agentId: 'ai-sdk-example' });
const provider = createOpenAICompatible({ name: 'local', baseURL: MODEL_URL });
const agent = {
  model: wrapLanguageModel({ model: provider(MODEL), middleware: bulkhead(session, { compactAfter: 6 }) }),
  tools: await bulkheadTools(session),
  stopWhen: stepCountIs(5),
  system: 'You help in a bakery.',
};

// Each line of standard input is a turn of one conversation.
const messages: { role: 'user' | 'assistant'; content: string }[] = [];
for await (const line of createInterface({ input: process.stdin })) {
  messages.push({ role: 'user', content: line });
  try {
    const { text } = await generateText({ ...agent, messages });
    messages.push({ role: 'assistant', content: text });
    console.log(text);
  } catch (error) {
    if (!(error instanceof VetoError)) throw error;
    messages.pop();
    console.log(`(${error.message})`);
  }
}
