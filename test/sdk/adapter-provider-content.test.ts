/** What a model's provider returns beside texts and calls, such as thinking, usage and options: the adapters lose none of it on its way back. */
import { AIMessage, HumanMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import t from 'tap';
import * as langchain from '../../sdk/adapters/langchain.ts';
import { connect, type Session } from '../../sdk/session/session.ts';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { ScriptedChatModel } from './scripted-models.ts';

const fixture = await startSupervisorFixture(t);
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });

const open = async (account: string): Promise<Session> =>
  connect({ url, token: await fixture.issuer.issue(account) }).start({ agentId: 'a' });

const OVEN = { name: 'oven', description: 'Heats', schema: { type: 'object', properties: {} } as const };

t.test('langchain: an answer with calls that no plugin changed keeps the content of its provider', async (t) => {
  const content = [
    { type: 'thinking', thinking: 'Bread needs heat.', signature: 's1' },
    { type: 'tool_use', id: 'c1', name: 'oven', input: { degrees: 200 } },
  ];
  const said = new AIMessage({
    content,
    // The order of the parsers of Anthropic and Google.
    tool_calls: [{ name: 'oven', args: { degrees: 200 }, id: 'c1', type: 'tool_call' }],
    additional_kwargs: { model: 'm' },
    response_metadata: { finish_reason: 'tool_calls' },
  });
  const model = langchain.bulkhead(await open('plain'), new ScriptedChatModel(() => said));
  const message = await model.bindTools?.([langchainTool(async () => 'warm', OVEN)]).invoke([new HumanMessage('Bake')]);
  t.match(message, {
    content,
    additional_kwargs: { model: 'm' },
    response_metadata: { finish_reason: 'tool_calls' },
    tool_calls: [{ id: 'c1', args: { degrees: 200 } }],
  });
});
