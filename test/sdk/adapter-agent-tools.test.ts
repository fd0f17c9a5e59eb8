/** The OpenAI Agents SDK: runs of agents that are tools of other agents go through the plugins, and no model escapes the check. */
import {
  Agent,
  tool as agentsTool,
  assistant,
  type HandoffInputData,
  handoff,
  type Model,
  Runner,
} from '@openai/agents';
import t from 'tap';
import { agentTool, bulkhead } from '../../sdk/adapters/openai-agents.ts';
import { connect } from '../../sdk/session/session.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor/supervisor-fixture.ts';
import { createAgentsModel } from './scripted-models.ts';

const fixture = withStartedPlugins(await startSupervisorFixture(t));
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });

await fixture.install({
  account: 'baker',
  slug: 'guard',
  code: `
    middleware.toolCall = ({ call, cancel }) => {
      if (call.arguments.degrees > 250) cancel('too hot');
    };
    middleware.outboundMessage = ({ message }) => ({ message: { text: message.text.replace('SECRET', '[redacted]') } });`,
});
const openSession = async () =>
  connect({ url, token: await fixture.issuer.issue('baker') }).start({ agentId: 'a', strict: true });

const callOf = (name: string, args: object) => {
  return { type: 'function_call' as const, callId: crypto.randomUUID(), name, arguments: JSON.stringify(args) };
};

/** A model that gives these answers, one a request. */
function createModel(...answers: readonly (string | ReturnType<typeof callOf>)[]) {
  const asked: string[] = [];
  const answerTo = (input: unknown) => {
    const answer = answers[asked.length] ?? 'Done.';
    asked.push(JSON.stringify(input));
    return typeof answer === 'string' ? [assistant(answer)] : [answer];
  };
  return { model: createAgentsModel(answerTo), asked };
}

const heated: number[] = [];
const oven = agentsTool({
  name: 'oven',
  description: 'Heats',
  strict: false,
  parameters: { type: 'object', properties: { degrees: { type: 'number' } }, required: [], additionalProperties: true },
  execute: async (args) => {
    heated.push((args as { degrees: number }).degrees);
    return 'warm';
  },
});

/** Settings of a session of its own. Their provider has the models by name. */
async function openSettings(models: Readonly<Record<string, Model>>) {
  const getModel = (name?: string): Model => models[name ?? ''] ?? createModel().model;
  const session = await openSession();
  return { session, settings: bulkhead(session, { modelProvider: { getModel } }) };
}
const ASK_HELPER = callOf('helper', { input: 'Heat it' });
const HEAT = callOf('oven', { degrees: 300 });
const run = (settings: object, agent: Agent) => new Runner({ ...settings, tracingDisabled: true }).run(agent, 'hello');

t.test('an agent as a tool whose run plugins would not judge is refused before a model is asked', async (t) => {
  const outer = createModel(ASK_HELPER);
  const inner = createModel(HEAT);
  const { settings } = await openSettings({ outer: outer.model });
  const helper = new Agent({ name: 'Helper', model: inner.model, tools: [oven] });
  const made = helper.asTool({ toolName: 'helper', toolDescription: 'Helps' });
  for (const one of [made, { ...made }]) {
    const agent = new Agent({ name: 'Baker', model: 'outer', tools: [oven, one] });
    await t.rejects(run(settings, agent), /tool “helper” of the agent “Baker” is an agent.*agentTool\(settings/);
  }
  const named = new Agent({ name: 'Helper', model: 'outer' }).asTool({ toolName: 'helper', toolDescription: 'Helps' });
  await t.rejects(run(settings, new Agent({ name: 'Baker', model: 'outer', tools: [named] })), /is an agent/);
  t.same([outer.asked, inner.asked, heated], [[], [], []]);
});

for (const isStreamed of [false, true])
  t.test(`a run of a tool from agentTool is judged${isStreamed ? ', streamed' : ''}`, async (t) => {
    const outer = createModel(ASK_HELPER, 'It is SECRET.');
    const inner = createModel(HEAT, callOf('oven', { degrees: 200 }), 'SECRET words');
    const { session, settings } = await openSettings({ outer: outer.model });
    const own = await openSettings({ inner: inner.model });
    const helper = new Agent({ name: 'Helper', model: 'inner', tools: [oven] });
    const made = agentTool(own.settings, helper, { toolName: 'helper', toolDescription: 'Helps' });
    let events = 0;
    if (isStreamed)
      made.on('*', () => {
        events += 1;
      });
    heated.length = 0;
    const agent = new Agent({ name: 'Baker', model: 'outer', tools: [{ ...made }] });
    t.equal((await run(settings, agent)).finalOutput, 'It is [redacted].');
    t.same(heated, [200], 'the refused call did not run');
    t.match(inner.asked[1], /too hot/);
    t.match(outer.asked[1], /\[redacted\] words/, 'the outer model gets the judged answer');
    t.equal(events > 0, isStreamed);
    const roles = async (one: typeof session) => (await one.messages()).items.map(({ role }) => role);
    t.same(await roles(session), ['user', 'tool', 'assistant']);
    t.same(
      (await roles(own.session)).filter((role) => role !== 'notice'),
      ['user', 'tool', 'tool', 'assistant'],
    );
  });

t.test('options of agentTool cannot replace the judged model or the check', async (t) => {
  const raw = createModel('SECRET words');
  const seen: string[] = [];
  const filter = ({ modelData }: { modelData: { input: never[] } }) => {
    seen.push('filter');
    return modelData;
  };
  const ways = {
    'a model object of the agent': { model: raw.model, options: {} },
    'a model object of the run': { model: '', options: { runConfig: { model: raw.model } } },
    'with a filter of the run': {
      model: '',
      options: { runConfig: { model: raw.model }, runOptions: { callModelInputFilter: filter } },
    },
    'another provider': { model: 'raw', options: { runConfig: { modelProvider: { getModel: () => raw.model } } } },
  };
  for (const [way, { model, options }] of Object.entries(ways)) {
    const outer = createModel(ASK_HELPER, 'Done.');
    const { settings } = await openSettings({ outer: outer.model });
    const own = await openSettings({});
    const helper = new Agent({ name: 'Helper', model });
    const made = agentTool(own.settings, helper, {
      toolName: 'helper',
      toolDescription: 'Helps',
      ...(options as object),
    });
    await run(settings, new Agent({ name: 'Baker', model: 'outer', tools: [made] }));
    t.same(raw.asked, [], way);
  }
  t.same(seen, [], 'the check came first');
});

t.test('models that were asked without the check leave no way for others', async (t) => {
  const raw = createModel('SECRET words');
  const { settings } = await openSettings({});
  const request = { modelSettings: {}, tools: [], handoffs: [], outputType: 'text' as const, tracing: false };
  const nested = await settings.modelProvider.getModel('inner');
  await nested.getResponse({ ...request, input: 'one' });
  const streamed = await settings.modelProvider.getModel('inner');
  for await (const _event of streamed.getStreamedResponse({ ...request, input: 'two' })) t.pass();
  const refused = /does not come from Bulkhead's settings/;
  await t.rejects(run({ ...settings, model: raw.model }, new Agent({ name: 'Baker' })), refused);
  // Of a run that failed before it asked its model.
  await settings.modelProvider.getModel('inner');
  const other = new Agent({ name: 'Baker', model: 'raw' });
  await t.rejects(run({ ...settings, modelProvider: { getModel: () => raw.model } }, other), refused);
  t.same(raw.asked, []);
});

/** What the framework's own filter `removeAllTools` does with the items of a handoff. */
const removeItems = (data: HandoffInputData): HandoffInputData => ({ ...data, preHandoffItems: [], newItems: [] });

t.test('an agent that takes over answers the message in its turn, also if a filter removes the handoff', async (t) => {
  for (const inputFilter of [undefined, removeItems])
    for (const messageId of [undefined, 'm1']) {
      const { model } = createModel(callOf('transfer_to_Cake', {}), 'A cake.');
      const session = await openSession();
      const options = messageId === undefined ? {} : { messageId };
      const settings = bulkhead(session, { ...options, modelProvider: { getModel: async () => model } });
      const cake = new Agent({ name: 'Cake', model: 'm' });
      const handoffs = [handoff(cake, inputFilter ? { inputFilter } : {})];
      const { finalOutput } = await run(settings, new Agent({ name: 'Front', model: 'm', handoffs }));
      t.equal(finalOutput, 'A cake.');
      const { items } = await session.turns();
      t.match(items, [{ state: 'ended', trigger: 'user', message: { text: 'hello' } }]);
      t.equal(items.length, 1, `filter: ${inputFilter !== undefined}, id: ${messageId}`);
      const asked = (await session.messages()).items.filter(({ role }) => role === 'user');
      t.equal(asked.length, 1);
    }
});
