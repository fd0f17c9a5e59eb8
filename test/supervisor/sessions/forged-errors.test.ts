/** Children that speak the wire themselves: the text of an error that they make up is judged like any result of a tool. */
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import t from 'tap';
import { openSandbox } from '../../../supervisor/jail/sandbox.ts';
import { registerHooks } from '../../fixtures/registrations.ts';
import { answering } from '../../plugins/hostile-programs.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor-fixture.ts';

/** Every plugin runs this: its tools refuse all arguments with a text that holds a secret, or none; its hook is the guard. */
const PROGRAM = answering(`(({ target, context }) => {
  if (target.kind === 'tools')
    return { outcome: 'invalid_arguments', errors: [{ field: 'arguments.a', message: target.name === 'leak' ? 'SECRET' : 'must be integer' }] };
  return JSON.stringify(context.result).includes('SECRET') ? { outcome: 'cancelled', reason: 'no secrets' } : { outcome: 'answered' };
})(head.params)`);

const NOTHING = registerHooks();
const TOOL = { description: 'd', parameters: {} };

const directory = join(await temporaryFolder(t), 'forged');
const sandbox = await openSandbox({ mode: 'auto', directory, program: PROGRAM });
const fixture = withStartedPlugins(await startSupervisorFixture(t, { sandbox }));
const address = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
const guard = { slug: 'guard', code: '// guard', required: true };
await fixture.install({ ...guard, registrations: { ...NOTHING, hooks: ['middleware.toolResult'] } });
const tools = { leak: TOOL, fail: TOOL };
await fixture.install({ slug: 'kit', code: '// kit', registrations: { ...NOTHING, tools } });
const session = await fixture.session();

const WITHHELD = 'The tool ran, but guard withheld its result: no secrets';
const HONEST = 'arguments.a must be integer.';

t.test('refused arguments are judged before a caller reads them', async (t) => {
  const call = (tool: string) => fixture.call('POST', `/sessions/${session}/tools/kit__${tool}`, { arguments: {} });
  t.match(await call('leak'), { status: 200, body: { isError: true, content: [{ text: WITHHELD }] } });
  const errors = [{ field: 'arguments.a', message: 'must be integer' }];
  t.match(await call('fail'), { status: 422, body: { code: 'invalid_arguments', detail: /must be integer/, errors } });
});

t.test('refused arguments of a tool of the host are judged, too: a plugin may have chosen their names', async (t) => {
  const { id } = (await fixture.call('POST', '/sessions', { agentId: 'a', hostTools: ['todo'] })).body;
  const call = (args: object) => fixture.call('POST', `/sessions/${id}/tools/todo__list`, { arguments: args });
  t.match(await call({ SECRET: 1 }), { status: 200, body: { isError: true, content: [{ text: WITHHELD }] } });
  t.match(await call({ colour: 'red' }), { status: 422, body: { code: 'invalid_arguments' } });
});

t.test('refused arguments are judged before the model and the transcript of a turn have them', async (t) => {
  const turn = (path: string, body: object) => fixture.call('POST', `/sessions/${session}/turns${path}`, body);
  await turn('', { id: 't1', text: 'hello', trigger: 'user' });
  const call = (tool: string) => turn(`/t1/calls/${tool}`, { name: `kit__${tool}`, arguments: {} });
  t.match((await call('leak')).body, { isError: true, content: [{ text: WITHHELD }] });
  t.match((await call('fail')).body, { isError: true, content: [{ text: HONEST }] });
  const { items } = (await fixture.call('GET', `/sessions/${session}/messages`)).body;
  t.notMatch(JSON.stringify(items), /SECRET/);
  const messages = items.filter(({ role }: { role: string }) => role === 'tool');
  t.match(messages, [
    { text: WITHHELD, judgement: { hook: 'toolResult', outcome: 'changed', asked: 1, by: ['guard'] } },
    { text: HONEST, judgement: { hook: 'toolResult', outcome: 'unchanged', asked: 1, by: [] } },
  ]);
});

t.test('refused arguments are judged before a client of the Model Context Protocol reads them', async (t) => {
  const client = new Client({ name: 'test', version: '1.0.0' });
  const requestInit = { headers: { authorization: `Bearer ${await fixture.issuer.issue(fixture.account)}` } };
  const url = new URL(`${address}/sessions/${session}/mcp`);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }) as never);
  t.teardown(() => client.close());
  const call = (tool: string) => client.callTool({ name: `kit__${tool}`, arguments: {} });
  t.match(await call('leak'), { isError: true, content: [{ text: WITHHELD }] });
  t.match(await call('fail'), { isError: true, content: [{ text: HONEST }] });
});

t.test('refused arguments count as an error of the call and are logged', async (t) => {
  const made = await fixture.install({ slug: 'quiet', code: '// quiet', registrations: { ...NOTHING, tools } });
  await fixture.call('POST', `/sessions/${session}/tools/quiet__fail`, { arguments: {} });
  await fixture.supervisor.logs.flush();
  const query = 'SELECT level, message FROM plugin_logs WHERE installation_id = $1';
  const { rows } = await fixture.pool.query(query, [made.installationId]);
  t.match(rows, [{ level: 'error', message: 'tools.fail (error): arguments.a must be integer.' }]);
});
