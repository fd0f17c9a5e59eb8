/** An agent on the OpenAI Agents SDK that uses every plugin its account has installed. */
import { createInterface } from 'node:readline';
import { Agent, type AgentInputItem, assistant, OpenAIProvider, Runner, user } from '@openai/agents';
import { bulkhead, bulkheadTools, VetoError } from '../../sdk/adapters/openai-agents.ts';
import { connect } from '../../sdk/session/session.ts';

const { BULKHEAD_URL = 'http://localhost:4010', BULKHEAD_TOKEN = '', MODEL_URL = '', MODEL = 'm' } = process.env;

const session = await connect({ url: BULKHEAD_URL, token: BULKHEAD_TOKEN }).start({ agentId: 'openai-agents-example' });
const agent = new Agent({
  name: 'Baker',
  model: MODEL,
  instructions: 'You help in a bakery.',
  tools: await bulkheadTools(session),
});
const modelProvider = new OpenAIProvider({ apiKey: 'none', baseURL: MODEL_URL, useResponses: false });
const runner = new Runner({ ...bulkhead(session, { compactAfter: 6, modelProvider }), tracingDisabled: true });

// Each line of standard input is a turn of one conversation.
const items: AgentInputItem[] = [];
for await (const line of createInterface({ input: process.stdin })) {
  items.push(user(line));
  try {
    const text = (await runner.run(agent, items)).finalOutput ?? '';
    items.push(assistant(text));
    console.log(text);
  } catch (error) {
    items.pop();
    if (!(error instanceof VetoError)) throw error;
    console.log(`(${error.message})`);
  }
}
