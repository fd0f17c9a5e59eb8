/** Tools that do not pass: the refusal names the tool, the place in its schema and the line that registers it. */
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { amount, isSoak, soakTest } from '../../runner/soak.ts';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, README } from './packages.ts';

const api = await startApiFixture(t);
const ann = await api.user('ann');
const { id } = (await ann.post('/plugins', { slug: 'tools', displayName: 'Tools' })).body;
let patch = 0;
const publish = (index: string) =>
  ann.post(`/plugins/${id}/versions`, {
    semVer: `0.0.${patch++}`,
    files: fileList({ 'readme.md': README, 'index.ts': index }),
  });
const tool = (parameters: unknown, name = 'x') =>
  `// one line before\ntools.${name} = { description: 'x', handler: () => '', parameters: JSON.parse(${JSON.stringify(JSON.stringify(parameters))}) };`;
/** A package of tools `t0`, `t1`, … on lines 2, 4, …: the start of a child costs more than a hundred schemas. */
const tools = (schemas: readonly unknown[]) =>
  schemas.map((parameters, index) => tool(parameters, `t${index}`)).join('\n');

/** Fields of a tool that passes. */
const TOOL = "description: 'x', parameters: {}, handler: () => ''";
/** A few messages, each with the start of a name. */
const ANSWER_MAX_BYTES = 3_000;

const refused: Record<string, [parameters: unknown, at: string, message: RegExp]> = {
  'a schema that is itself': [{ $ref: '#' }, '', /without end/],
  'two that are each other': [
    { $ref: '#/$defs/a', $defs: { a: { allOf: [{ $ref: '#/$defs/b' }] }, b: { not: { $ref: '#/$defs/a' } } } },
    '',
    /without end/,
  ],
  'a circle over an anchor': [
    { $ref: '#here', $defs: { a: { $anchor: 'here', anyOf: [{ $ref: '#here' }] } } },
    '',
    /without end/,
  ],
  'a remote reference': [
    { properties: { a: { $ref: 'https://example.com/s.json' } } },
    '/properties/a/$ref',
    /nothing is fetched/,
  ],
  'a reference to nothing': [
    { properties: { a: { $ref: '#/$defs/none' } } },
    '/properties/a/$ref',
    /not in this schema/,
  ],
  'a schema over 64 KiB': [
    { description: 'x'.repeat(65_536) },
    '',
    /has 65554 bytes of JSON; the maximum is 65536\. Shorten it/,
  ],
  'a schema of 1 MiB': [{ properties: { a: { const: 'x'.repeat(1_048_576) } } }, '', /the maximum is 65536/],
  'another draft': [
    { $schema: 'http://json-schema.org/draft-07/schema#' },
    '/$schema',
    /names another dialect.*: remove \$schema/,
  ],
  'an asynchronous schema': [{ $async: true }, '', /\$async is not part of it/],
  'a text': [{ type: 'string' }, '/type', /excludes objects/],
  'a list or nothing': [{ type: ['null', 'array'] }, '/type', /excludes objects/],
  'a constant': [{ const: 1 }, '/const', /excludes objects/],
  'a choice of no object': [{ enum: ['a', 1, null, []] }, '/enum', /excludes objects/],
  'a reference to a text': [
    { $ref: '#/$defs/a', $defs: { a: { type: 'string' } } },
    '/$defs/a/type',
    /excludes objects/,
  ],
  'parts that exclude each other': [{ allOf: [{ type: 'object' }, { type: 'array' }] }, '/allOf/1/type', /excludes/],
  'nothing but texts to choose': [{ anyOf: [{ type: 'string' }, false, { enum: [1] }] }, '/anyOf', /excludes objects/],
  'an invalid pattern': [{ pattern: '(' }, '', /./],
  'a keyword with a wrong value': [{ properties: { a: { type: 'objekt' } } }, '/properties/a/type', /2020-12/],
};
t.test('each unusable schema is named', async (t) => {
  const { status, body } = await publish(tools(Object.values(refused).map(([parameters]) => parameters)));
  t.equal(status, 422);
  const all = Object.entries(refused);
  t.equal(body.errors.length, all.length);
  for (const [index, [name, [, at, message]]] of all.entries()) {
    const expected = { path: 'index.ts', line: 2 * index + 2, field: `tools.t${index}.parameters${at}`, message };
    t.match(body.errors[index], expected, name);
  }
  t.match(body.detail, /^index\.ts:2:\d+: tools\.t0\.parameters/);
});

t.test('schemas that are too large together are refused', async (t) => {
  const schema = { description: 'x'.repeat(60 * 1024) };
  const { status, body } = await publish(tools(Array(5).fill(schema)));
  t.equal(status, 422);
  t.match(body.errors, [
    { path: 'index.ts', message: /that the package offers have 3\d{5} bytes; the maximum is 262144/ },
  ]);
  t.equal((await publish(tools(Array(4).fill(schema)))).status, 201);
  const many = { examples: Array(10_000).fill(1) };
  t.match((await publish(tools([many, many]))).body.errors, [
    { path: 'index.ts', message: /that the package offers have 200\d\d values; the maximum is 16000/ },
  ]);
});

t.test('a schema that is no object is refused', async (t) => {
  for (const parameters of amount({ quick: [null], soak: [false, null, 'string', []] })) {
    const { status, body } = await publish(tool(parameters));
    t.equal(status, 422, JSON.stringify(body));
    t.match(body.errors[0], {
      path: 'index.ts',
      line: 2,
      message: /tools\.x\.parameters: must be a JSON Schema object/,
    });
  }
});

t.test('a tool has a name that model APIs take', async (t) => {
  // “tools__” and 57 characters.
  const longest = `a${'b'.repeat(56)}`;
  t.equal((await publish(tool({}, longest))).status, 201);
  const { status, body } = await publish(tool({}, `${longest}c`));
  t.equal(status, 422, JSON.stringify(body));
  const message = `The tool “${longest}c” is called “tools__${longest}c” in sessions, which has 65 characters: model APIs accept at most 64. Shorten its name, or the plugin’s slug.`;
  t.match(body.errors[0], { path: 'index.ts', line: 2, message });
});

t.test('what models and users see of registrations hides nothing', async (t) => {
  const { status, body } = await publish(
    [
      "tools.a = { description: 'Reads\\u{E0041} mail', parameters: {}, handler: () => '' };",
      "tools.b = { description: 'x', handler: () => '', parameters: { properties: { to: { description: 'a\\u202eb' } } } };",
      "tools.c = { description: 'x', handler: () => '', parameters: { properties: { 'to\\u200b': {} } } };",
      "commands.d = { description: 'a\\u2069b', handler: () => ({ text: '' }) };",
      "providers.e = { models: [{ id: 'm', name: 'M\\u00ad' }], chat: () => { throw new Error(); } };",
    ].join('\n'),
  );
  t.equal(status, 422, JSON.stringify(body));
  t.match(body.errors, [
    { path: 'index.ts', line: 1, field: 'tools.a.description', message: /contains U\+E0041/ },
    { path: 'index.ts', line: 2, field: 'tools.b.parameters/properties/to/description', message: /contains U\+202E/ },
    { path: 'index.ts', line: 3, field: 'tools.c.parameters/properties', message: /a name that contains U\+200B/ },
    { path: 'index.ts', line: 4, field: 'commands.d', message: /contains U\+2069/ },
    { path: 'index.ts', line: 5, field: 'providers.e/0/name', message: /contains U\+00AD/ },
  ]);
  const family =
    '👩\u200d👩\u200d👧 ❤\ufe0f 🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F} می\u200cخواهم 葛\u{E0100}\n\tשלום';
  const good = await publish(
    `tools.a = { description: ${JSON.stringify(family)}, parameters: {}, handler: () => '' };`,
  );
  t.equal(good.status, 201, JSON.stringify(good.body));
});

await soakTest(t, 'recursive schemas that end and patterns pass', async (t) => {
  const node = {
    type: 'object',
    properties: { next: { $ref: '#/$defs/node' }, all: { type: 'array', items: { $ref: '#/$defs/node' } } },
  };
  const parameters = {
    $id: 'https://example.com/tree',
    $ref: 'https://example.com/tree#/$defs/node',
    $defs: { node: { ...node, $anchor: 'node' }, other: { $ref: '#node' } },
    properties: {
      date: { pattern: '^\\d{4}-\\d{2}-\\d{2}$' },
      name: { pattern: '^[a-z]+( [a-z]+)*$' },
      costly: { pattern: '^(a+)+$' },
      same: { $ref: '#' },
      '(a+)+$': { const: '^(a+)+$', default: '^(a+)+$' },
    },
  };
  const { status, body } = await publish(tool(parameters));
  t.equal(status, 201, JSON.stringify(body));
});

t.test('schemas that are odd and harmless pass', async (t) => {
  const code = "x');process.exit(1);//";
  const odd: Record<string, unknown> = {
    'property names that look like code': {
      properties: { [code]: { type: 'string' }, '${1}': {}, "']": {}, constructor: {}, toString: { type: 'string' } },
      required: [code],
    },
    'unknown keywords': { 'x-ours': { $ref: 'https://example.com/' }, format: 'no-such-format', deprecated: true },
    '300 properties': {
      properties: Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`p${at}`, { type: 'string' }])),
    },
    'properties that every object has': JSON.parse(
      '{"properties":{"__proto__":{"type":"string"},"constructor":{}},"required":["__proto__","toString"]}',
    ),
    'a type among others': { type: ['null', 'object'] },
    'a choice with an object': { enum: [1, {}] },
    'one part of several': { anyOf: [{ type: 'string' }, { $ref: '#/$defs/a' }], $defs: { a: {} } },
    'a default that would pollute': { properties: { a: { default: { constructor: { prototype: { polluted: 1 } } } } } },
    'an empty one': {},
  };
  const { status, body } = await publish(tools(Object.values(odd)));
  t.equal(status, 201, JSON.stringify(body).slice(0, 1_000));
  for (const [index, [name, parameters]] of Object.entries(odd).entries())
    t.ok(isDeepStrictEqual(body.discovered.tools[index].parameters, parameters), name);
  t.notOk('polluted' in {});
});

await soakTest(t, 'two schemas of one $id are each their own', async (t) => {
  const named = (type: string) => ({ $id: 'https://example.com/same', type: 'object', properties: { a: { type } } });
  const both = `${tool(named('string'), 'one')}\n${tool(named('integer'), 'two')}`;
  const { status, body } = await publish(both);
  t.equal(status, 201, JSON.stringify(body));
  t.match(
    body.discovered.tools.map((one: { parameters: unknown }) => one.parameters),
    [named('string'), named('integer')],
  );
  const other = (await ann.post('/plugins', { slug: 'other-tools', displayName: 'Other' })).body.id;
  const files = fileList({ 'readme.md': README, 'index.ts': tool(named('boolean')) });
  t.equal(
    (await ann.post(`/plugins/${other}/versions`, { semVer: '1.0.0', files })).status,
    201,
    'nor with other plugins',
  );
});

t.test('invalid registrations are rejected', async (t) => {
  const wrong: Record<string, RegExp> = {
    [tool({}).replace("'x'", "''")]: /tools\.x\.description: must not be empty/,
    [tool({}).replace("'x'", '7')]: /tools\.x\.description: must be a string of 1-4096 characters/,
    '\nproviders.p = { models: [], chat: () => null };': /providers\.p\.models: must not be empty/,
  };
  const similar: Record<string, RegExp> = {
    [tool({}).replace("'x'", '"x".repeat(4097)')]: /tools\.x\.description: has more than 4096 characters/,
    "\ncommands.c = { description: '', handler: () => '' };": /commands\.c\.description: must not be empty/,
  };
  for (const [index, message] of Object.entries({ ...wrong, ...(isSoak() && similar) })) {
    const { status, body } = await publish(index);
    t.equal(status, 422, JSON.stringify(body));
    t.match(body.errors[0], { path: 'index.ts', line: 2, message }, index);
  }
});

await soakTest(t, 'a name of megabytes is neither compared nor repeated', async (t) => {
  const bytesOf = (body: unknown) => Buffer.byteLength(JSON.stringify(body));
  const unknown = await publish("middleware['ab'.repeat(600_000)] = () => 1;");
  t.equal(unknown.status, 422);
  t.match(unknown.body.errors, [{ message: /^“middleware\.[ab]+…” cannot be registered by a plugin$/ }]);
  t.ok(bytesOf(unknown.body) < ANSWER_MAX_BYTES, `the answer has ${bytesOf(unknown.body)} bytes`);

  const chosen = await publish("commands['ab'.repeat(600_000)] = { description: 'x', handler: () => ({ text: '' }) };");
  t.match(chosen.body.errors, [{ message: /^“commands\.[ab]+…” cannot be registered: its name / }]);
  t.ok(bytesOf(chosen.body) < ANSWER_MAX_BYTES, `the answer has ${bytesOf(chosen.body)} bytes`);

  const keyword = 'x'.repeat(60_000);
  const hidden = await publish(tool({ properties: { [keyword]: { description: 'a\u202eb' } } }));
  t.match(hidden.body.errors, [{ field: /^tools\.x\.parameters\/properties\/x+…$/, message: /U\+202E/ }]);
  t.ok(bytesOf(hidden.body) < ANSWER_MAX_BYTES, `the answer has ${bytesOf(hidden.body)} bytes`);

  const warned = await publish(`${tool({ [keyword]: {} })}\ntools.y = { ${keyword}: 1, ${TOOL} };`);
  t.match(warned.body.warnings, [/A tool has no field “x+…”/, /tools\.x\.parameters\/x+…: .*properties: \{ x+…: … \}/]);
  t.ok(bytesOf(warned.body.warnings) < ANSWER_MAX_BYTES, `the warnings have ${bytesOf(warned.body.warnings)} bytes`);
});

await soakTest(t, 'a global that is not there', async (t) => {
  const wrong: Record<string, RegExp> = {
    "\nmiddlware.systemPrompt = () => 'x';": /“middlware” is not declared\. Did you mean “middleware”/,
    "\nhots.log('x');": /“hots” is not declared\. Did you mean “host”/,
    '\nsetTimout(() => {}, 1);': /Did you mean “setTimeout”/,
    "\nfetch('https://example.com');": /Plugins have no fetch: declare the capability host\.http:/,
    '\nconst x = process.env.HOME;': /Plugins have no process/,
  };
  for (const [index, message] of Object.entries(wrong)) {
    const { status, body } = await publish(index);
    t.equal(status, 422, JSON.stringify(body));
    t.match(body.errors[0], { path: 'index.ts', line: 2, message }, index);
  }
  const answer = await publish(
    "tools['r' + typeof require] = { description: 'x', parameters: {}, handler: () => '' };",
  );
  t.match(answer.body.discovered?.tools, [{ name: 'rundefined' }], JSON.stringify(answer.body));
});
