/** Waiting for a model or an SSH host does not count against a handler's budget or its chain's; waiting for anything else does. */
import t from 'tap';
import { limits } from '../../../sdk/contract/limits.ts';
import { serve } from '../../fixtures/listening-server.ts';
import type { Teardown } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';
import { startDns } from '../host/dns-server.ts';
import { openAi, startModelServer } from '../host/model-server.ts';
import { noSshd, startSshd } from '../host/sshd.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

// All of them wait.
t.jobs = 4;
/** The budget of the handler, which suffices on a busy machine too. Its wait is longer. Milliseconds. */
const BUDGET_MS = 3_000;
const WAIT_MS = 2 * BUDGET_MS;
/** A child that starts on a busy machine. */
const WARM_MS = 20_000;

const tool = (body: string) =>
  `tools.run = { description: 'd', parameters: { type: 'object' }, handler: async ({ warm }) => { if (!warm) { ${body} } return 'done'; } };`;

async function invoke(fixture: SupervisorFixture, budgetMs: number, warm: boolean) {
  const accountId = (await fixture.pool.query('SELECT account_id FROM installations')).rows[0].account_id;
  const [plugin] = (await fixture.supervisor.pluginsCache.get(accountId)).plugins;
  if (!plugin) throw new Error('nothing is installed');
  return fixture.supervisor.fleet.invoke(plugin, {
    target: { kind: 'tools', name: 'run' },
    invocationId: crypto.randomUUID(),
    session: null,
    deadlineAt: Date.now() + budgetMs,
    context: { arguments: { warm } },
  });
}

async function outcome(fixture: SupervisorFixture, capability: string, body: string) {
  await fixture.install({ slug: 'waiting', capabilities: [capability], code: tool(body) });
  t.match(await invoke(fixture, WARM_MS, true), { kind: 'answered' }, 'it runs');
  return invoke(fixture, BUDGET_MS, false);
}

const COMPLETION = `await host.llm.complete({ messages: [{ role: 'user', text: 'x' }] });`;

/** Starts a supervisor with a model that answers after this time. */
async function startWithModel(t: Teardown, waitMs: number): Promise<SupervisorFixture> {
  const server = await startModelServer(t);
  server.answers = [(response) => void setTimeout(() => openAi('thought over')(response), waitMs)];
  const model = { id: 'm', name: 'M', contextWindow: undefined, price: undefined };
  const provider = { name: 'main', kind: 'openai', baseUrl: server.url, apiKey: 'k', structuredOutputs: true } as const;
  return startSupervisorFixture(t, { models: [{ ...provider, models: [model] }] });
}

soakTest(t, 'for a model', async (t) => {
  const fixture = await startWithModel(t, WAIT_MS);
  t.match(await outcome(fixture, 'host.llm', COMPLETION), { kind: 'answered', answer: 'done' });
});

t.test('for a model, for longer than the time of the whole chain', async (t) => {
  const fixture = await startWithModel(t, limits.chainBudgetMs + BUDGET_MS);
  const code = 'middleware.todoDelete = async () => undefined;';
  await fixture.install({
    slug: 'asking',
    capabilities: ['host.llm'],
    code: `middleware.todoDelete = async ({ todo }) => { if (todo.title === 'slow') { ${COMPLETION} } };`,
  });
  await fixture.install({ slug: 'optional', code });
  await fixture.install({ slug: 'required', required: true, code });
  const session = await fixture.session();
  const run = (title: string) => {
    const todo = { id: 't', title, dueAt: null, assigneeAgentId: null, done: false };
    return fixture.call('POST', `/sessions/${session}/hooks/todoDelete`, { context: { todo } });
  };
  await run('warm');
  const trace = ['asking', 'optional', 'required'].map((slug) => ({ slug, outcome: 'unchanged' }));
  t.match((await run('slow')).body, { action: 'continue', trace });
});

soakTest(t, 'for an SSH host', { skip: noSshd }, async (t) => {
  const sshd = await startSshd(t);
  const fixture = await startSupervisorFixture(t, { sshTargets: await sshd.targets() });
  const run = `await host.ssh.run('web', 'sleep ${WAIT_MS / 1_000}');`;
  t.match(await outcome(fixture, 'host.ssh', run), { kind: 'answered', answer: 'done' });
});

t.test('not for a web server', async (t) => {
  const dns = await startDns(t);
  dns.set('api.test', ['127.0.0.1']);
  const { port, open } = await serve(t, () => undefined);
  const http = { dnsServers: [dns.address], allowPrivate: new Set([`api.test:${port}`]) };
  const fetch = `await host.http.fetch('http://api.test:${port}/');`;
  const result = await outcome(await startSupervisorFixture(t, { http }), 'host.http:api.test', fetch);
  t.match(result, { kind: 'timeout', message: /took longer than its/ });
  t.equal(await open(), 1, 'a call that belongs to no session may go on');
});
