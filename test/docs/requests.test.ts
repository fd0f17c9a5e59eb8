/**
 * The pages about turns, services and REST: what they say is run, with curl, Python and a generated client, against both interfaces
 * in this process.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { listen, startApiFixture } from '../api/api-fixture.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { whyMissing } from '../runner/programs.ts';
import { soakTest } from '../runner/soak.ts';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { runShellBlocks } from './shell-blocks.ts';

const run = promisify(execFile);
const page = readFileSync(fileURLToPath(new URL('../../docs/turns.md', import.meta.url)), 'utf8');
const blocksOf = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, code = '']) => code);

const fixture = await startSupervisorFixture(t);
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
await fixture.install({
  slug: 'sums',
  code: `
    middleware.inboundMessage = () => {};
    middleware.outboundMessage = (ctx) => ({ message: { text: ctx.message.text + ' Bye.' } });
    tools.add = { description: 'Adds', parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
      handler: ({ a, b }) => String(a + b) };`,
});
const env = {
  PATH: `${dirname(process.execPath)}:${process.env.PATH ?? ''}`,
  SESSION_API: url,
  TOKEN: await fixture.issuer.issue('ann'),
};

async function readTranscripts(): Promise<Record<string, string[]>> {
  const { rows } = await fixture.pool.query<{ session: string; lines: string[] }>(
    `SELECT session_id AS session, array_agg(role || ': ' || text ORDER BY position) AS lines FROM session_messages GROUP BY 1 ORDER BY 1`,
  );
  return Object.fromEntries(rows.map(({ session, lines }) => [session, lines]));
}

t.test('the requests of curl take a turn', { skip: whyMissing('curl') }, async (t) => {
  const stdout = await runShellBlocks('turns.md', env);
  t.match(stdout, /"systemPrompt":"You are a baker\."/);
  t.match(stdout, /"content":\[\{"type":"text","text":"42"\}\]/);
  t.match(stdout, /Let me count\. Bye\.\nended\nopen\n220\n220 degrees\ncall-2\ntrue\n$/);
  t.same(Object.values(await readTranscripts()), [
    ['user: How many loaves are 12 and 30?', 'tool: 42', 'assistant: Let me count. Bye.', 'assistant: 42 loaves. Bye.'],
    ['user: Heat the oven', 'tool: 220 degrees', 'tool: The user refused this call.'],
  ]);
});

t.test('the program in Python takes a turn', { skip: whyMissing('python3') }, async (t) => {
  const before = new Set(Object.keys(await readTranscripts()));
  const [, program = ''] = blocksOf('python');
  t.equal((await run('python3', ['-c', program], { env })).stdout, 'It is 42. Bye.\n');
  const added = Object.entries(await readTranscripts()).filter(([session]) => !before.has(session));
  t.same(
    added.map(([, lines]) => lines),
    [['user: How many loaves are 12 and 30?', 'tool: 42', 'assistant: It is 42. Bye.']],
  );
});

t.test('the function in Python makes the messages of a model’s request', { skip: whyMissing('python3') }, async (t) => {
  const session = (await fixture.call('POST', '/sessions', { agentId: 'baker' })).body.id;
  const turns = `/sessions/${session}/turns`;
  const old = { id: 'old', role: 'tool', text: 'It rains.' };
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: [old] });
  await fixture.call('POST', turns, { id: 't1', text: 'How many loaves?', trigger: 'user' });
  await fixture.call('POST', `${turns}/t1/output`, { id: 't1:o1', text: 'Let me count.' });
  const add = { name: 'sums__add', arguments: { a: 12, b: 30 } };
  t.equal((await fixture.call('POST', `${turns}/t1/calls/c1`, add)).status, 200);
  const { messages } = (await fixture.call('GET', `${turns}/t1/prompt`)).body;
  const [convert = ''] = blocksOf('python');
  const program = `${convert}\nimport sys\nprint(json.dumps(to_openai(json.loads(sys.argv[1]))))`;
  const { stdout } = await run('python3', ['-c', program, JSON.stringify(messages)]);
  const called = { name: 'sums__add', arguments: '{"a": 12, "b": 30}' };
  t.same(JSON.parse(stdout), [
    { role: 'system', content: 'It rains.' },
    { role: 'user', content: 'How many loaves?' },
    { role: 'assistant', content: 'Let me count. Bye.' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: called }] },
    { role: 'tool', tool_call_id: 'c1', content: '42' },
  ]);
});

/** Takes a turn with the client in the folder beside it. The compiler checks it against the types of the client. */
const PROGRAM = `import { createClient } from './client/client/index.ts';
import * as api from './client/index.ts';

export async function takeTurn(baseUrl: string, token: string) {
  const by = { client: createClient({ baseUrl, auth: token }), throwOnError: true } as const;
  const { data: session } = await api.postSessions({ ...by, body: { agentId: 'baker', hostTools: ['todo'] } });
  const inSession = { ...by, path: { sessionId: session.id }, headers: { 'bulkhead-runtime': 'worker-1' } };
  const { data: turn } = await api.postSessionsBySessionIdTurns({
    ...inSession,
    body: { id: 't1', text: 'How many loaves are 12 and 30?', trigger: 'user', systemPrompt: 'You are a baker.' },
  });
  const path = { sessionId: session.id, turnId: turn.id };
  const step = { ...inSession, path };
  const { data: prompt } = await api.getSessionsBySessionIdTurnsByTurnIdPrompt({ ...step, query: { compactAfter: 40 } });
  const call = async (callId: string, name: string, args: object): Promise<api.ToolResult> => {
    const { data: result } = await api.postSessionsBySessionIdTurnsByTurnIdCallsByCallId({
      ...step,
      path: { ...path, callId },
      body: { name, arguments: args },
    });
    if ('callId' in result) throw new Error('the runtime performs ' + result.name);
    return result;
  };
  const results = [await call('c1', 'sums__add', { a: 12, b: 30 }), await call('c1', 'sums__add', { a: 12, b: 30 })];
  await call('c2', 'todo__create', { title: 'Heat the oven' });
  const send = async (body: api.PostSessionsBySessionIdTurnsByTurnIdOutputData['body']): Promise<string> =>
    (await api.postSessionsBySessionIdTurnsByTurnIdOutput({ ...step, body })).data.show;
  const shown = [
    await send({ id: 'o1', text: 'Let me count.' }),
    await send({ id: 'o2', piece: 0, text: 'It is ' }),
    await send({ id: 'o2', piece: 1, text: '42.', done: true }),
  ];
  const { data: detail } = await api.getSessionsBySessionIdTurnsByTurnId(step);
  const { data: ended } = await api.postSessionsBySessionIdTurnsByTurnIdEnd({ ...step, body: {} });
  const { data: transcript } = await api.getSessionsBySessionIdMessages({ ...inSession, query: { limit: 10 } });
  const { data: todos } = await api.getSessionsBySessionIdTodos({ ...inSession, query: { done: false } });
  const { error } = await api.postSessionsBySessionIdTurnsByTurnIdOutput({
    ...step,
    throwOnError: false,
    body: { text: 'Too late' },
  });
  return {
    opened: turn.state,
    systemPrompt: prompt.systemPrompt,
    tools: prompt.tools.map(({ name }) => name),
    results: results.map(({ content: [first], isError }) => ({ text: first?.type === 'text' && first.text, isError })),
    shown,
    calls: detail.calls.map(({ callId, state }) => callId + ' ' + state),
    ended: ended.state,
    transcript: transcript.items.map(({ role, text }) => role + ': ' + text),
    todos: todos.items.map(({ title }) => title),
    refusal: error?.code,
  };
}
`;
const COMPILER_OPTIONS = {
  target: 'es2024',
  lib: ['es2024', 'dom', 'dom.iterable'],
  module: 'nodenext',
  types: [],
  strict: true,
  erasableSyntaxOnly: true,
  verbatimModuleSyntax: true,
  allowImportingTsExtensions: true,
  noEmit: true,
};

soakTest(t, 'a client generated from the OpenAPI document takes a turn', async (t) => {
  const folder = await temporaryFolder(t);
  const { createClient } = await import('@hey-api/openapi-ts');
  await createClient({
    input: `${env.SESSION_API}/openapi.json`,
    output: { path: join(folder, 'client'), module: { extension: '.ts' } },
    plugins: ['@hey-api/typescript', '@hey-api/client-fetch', '@hey-api/sdk'],
    logs: { level: 'silent' },
  });
  await writeFile(join(folder, 'package.json'), '{"type": "module"}');
  await writeFile(join(folder, 'turn.ts'), PROGRAM);
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: COMPILER_OPTIONS }));
  const compiler = fileURLToPath(new URL('../node_modules/typescript-7/bin/tsc', import.meta.url));
  await t.resolves(run(compiler, ['-p', folder, '--singleThreaded']));
  const { takeTurn } = await import(join(folder, 'turn.ts'));
  t.match(await takeTurn(env.SESSION_API, env.TOKEN), {
    opened: 'open',
    systemPrompt: 'You are a baker.',
    tools: /sums__add.*todo__create/,
    results: [
      { text: '42', isError: false },
      { text: '42', isError: false },
    ],
    shown: ['Let me count. Bye.', '', 'It is 42. Bye.'],
    calls: ['c1 answered', 'c2 answered'],
    ended: 'ended',
    transcript: [
      'user: How many loaves are 12 and 30?',
      'tool: 42',
      /^tool: .*Heat the oven/,
      'assistant: Let me count. Bye.',
      'assistant: It is 42. Bye.',
    ],
    todos: ['Heat the oven'],
    refusal: 'turn_ended',
  });
});

t.test('the requests of the page about services', { skip: whyMissing('curl') }, async (t) => {
  const own = { ...env, TOKEN: await fixture.issuer.issue('bea') };
  t.match(
    await runShellBlocks('services.md', own),
    /"id":"flour","title":"Buy flour".*"todos":\[\{"id":"flour".*true\nBuy flour\n2099-01-05T06:00:00.000Z\nTurn the oven on\nplanner\nThe bread is done.\n$/s,
  );
});

t.test('the commands of the page about REST', { skip: whyMissing('curl') || whyMissing('zip') }, async (t) => {
  const api = await startApiFixture(t, { beside: fixture });
  const own = {
    ...env,
    API: `http://127.0.0.1:${await listen(api)}/api`,
    TOKEN: (await api.user('cleo')).token,
  };
  const stdout = await runShellBlocks('rest-with-curl.md', own, await temporaryFolder(t));
  t.match(stdout, /"middleware":\["middleware\.systemPrompt"\]/);
  t.match(stdout, /You are helpful\.\\nClose by recommending a cup of Assam\./);
});
