/** What a handler returns that its kind does not allow: the caller's error, and the line in the plugin's log. */
import t from 'tap';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const fixture = await startSupervisorFixture(t);
const session = await fixture.session();

const tool = (name: string, body: string) =>
  `tools.${name} = { description: 'd', parameters: {}, handler: async () => { ${body} } };`;
const command = (name: string, body: string) => `commands.${name} = { description: 'd', handler: () => { ${body} } };`;
const provider = (name: string, chat: string) => `providers.${name} = { models: [{ id: 'm', name: 'M' }], ${chat} };`;
const { installationId } = await fixture.install({
  slug: 'odd',
  code: [
    tool('none', ''),
    tool('text', "return { content: 'text', isError: true };"),
    tool('json', "return { content: 'text', title: 'Page' };"),
    tool('nul', "return { ok: 'a\\0' };"),
    tool('large', "return 'x'.repeat(300_000);"),
    tool('bytes', 'return new Uint8Array([137, 80]);'),
    tool('icon', 'return { icon: new Uint8Array([137, 80]) };'),
    tool('list', 'return ["a", new Uint8Array([137, 80])];'),
    tool('picture', 'return { content: [{ type: "image", mimeType: "image/png", data: btoa("\x89P") }] };'),
    command('typo', "return { txt: 'x' };"),
    command('none', ''),
    provider('none', 'chat: () => undefined'),
    provider('unused', "chat: () => ({ text: 'x', model: 'm' })"),
    provider(
      'other',
      "async *chat() { yield { text: 'one' }; return { text: 'two', model: 'm', usage: { inputTokens: 0, outputTokens: 0 } }; }",
    ),
  ].join('\n'),
});
await fixture.install({
  slug: 'asker',
  capabilities: ['host.llm'],
  code: tool('ask', "await host.llm.complete({ model: 'odd__none/m', messages: [{ role: 'user', text: 'hi' }] });"),
});

async function readSystemLines(): Promise<string[]> {
  await fixture.supervisor.logs.flush();
  const { rows } = await fixture.pool.query(
    `SELECT message FROM plugin_logs WHERE installation_id = $1 AND source = 'system' AND level = 'error' ORDER BY id`,
    [installationId],
  );
  return rows.map(({ message }) => message);
}

const BYTES_ADVICE =
  'Return a text made by new TextDecoder().decode(bytes), or a picture as { content: [{ type: "image", mimeType: "image/png", data }] } with its base64 text as data.';
const NO_USAGE = 'it returned no completion: usage: is required and must be an object';
const CONTRADICTION = 'the text that it returned does not begin with the text that it yielded';
const request = { request: { messages: [{ role: 'user', text: 'hi' }] } };

for (const [path, body, detail, line] of [
  ['tools/odd__none', { arguments: {} }, 'odd__none returned nothing. Return a string or a JSON value.', null],
  [
    'tools/odd__text',
    { arguments: {} },
    'odd__text returned a malformed tool result: content: must be a list, not text.',
    null,
  ],
  ['tools/odd__large', { arguments: {} }, 'odd__large returned more than 262144 bytes.', null],
  ['tools/odd__bytes', { arguments: {} }, `odd__bytes returned bytes. ${BYTES_ADVICE}`, null],
  ['tools/odd__list', { arguments: {} }, `odd__list returned bytes in item 1 of a list. ${BYTES_ADVICE}`, null],
  ['tools/odd__icon', { arguments: {} }, `odd__icon returned bytes in its field "icon". ${BYTES_ADVICE}`, null],
  [
    'commands/odd__typo',
    { input: '' },
    'odd__typo failed: it returned no text: text: is required and must be text',
    'commands.typo (error): it returned no text: text: is required and must be text',
  ],
  [
    'commands/odd__none',
    { input: '' },
    'odd__none failed: it returned nothing',
    'commands.none (error): it returned nothing',
  ],
  [
    'providers/odd__none',
    request,
    'odd__none failed: it returned nothing',
    'providers.none (error): it returned nothing',
  ],
  ['providers/odd__unused', request, `odd__unused failed: ${NO_USAGE}`, `providers.unused (error): ${NO_USAGE}`],
  ['providers/odd__other', request, `odd__other failed: ${CONTRADICTION}`, `providers.other (error): ${CONTRADICTION}`],
] as const)
  t.test(`${path}: the caller and the plugin’s log say what is wrong`, async (t) => {
    const known = await readSystemLines();
    const answer = await fixture.call('POST', `/sessions/${session}/${path}`, body);
    t.match(answer, { status: 502, body: { code: 'plugin_failed', detail } });
    const name = path.split('__')[1];
    t.same((await readSystemLines()).slice(known.length), [line ?? `tools.${name} (error): ${detail}`]);
  });

t.test('a plugin that asks a provider is sent to the provider’s log, which says why', async (t) => {
  const known = await readSystemLines();
  const { body } = await fixture.call('POST', `/sessions/${session}/tools/asker__ask`, { arguments: {} });
  t.match(body.content, [{ text: /odd__none failed; its own log says why/ }]);
  t.same((await readSystemLines()).slice(known.length), ['providers.none (error): it returned nothing']);
});

t.test('a picture is returned as the advice says', async (t) => {
  const { body } = await fixture.call('POST', `/sessions/${session}/tools/odd__picture`, { arguments: {} });
  t.same(body.content, [{ type: 'image', mimeType: 'image/png', data: 'iVA=' }]);
});

t.test('a text that cannot be stored is named by its place', async (t) => {
  const { body } = await fixture.call('POST', `/sessions/${session}/tools/odd__nul`, { arguments: {} });
  t.match(body, {
    isError: true,
    content: [
      {
        text: 'ok in what it returned must not contain U+0000 or lone surrogates: remove them, or replace them with U+FFFD',
      },
    ],
  });
});
