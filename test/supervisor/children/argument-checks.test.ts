/** The arguments of tools are checked in the plugin's own process, before its handler runs. */
import { fileURLToPath } from 'node:url';
import { stop as stopEsbuild } from 'esbuild';
import t from 'tap';
import { buildChild } from '../../../sandbox-child/build-child.ts';
import type { Registrations } from '../../../sdk/contract/protocol.ts';
import type { Child } from '../../../supervisor/children/child.ts';
import { registerParts } from '../../fixtures/registrations.ts';
import { amount, listCases, soakTest } from '../../runner/soak.ts';
import { bundleOf, callTool, errorOf, testChild, testJail } from './jailed-child.ts';

const jail = await testJail(t);

/** Loads tools that answer their arguments as JSON. Their schemas are text, because they may have `__proto__`. */
function loadTools(child: Child, schemas: Readonly<Record<string, string>>, code = '') {
  const expected = registering(schemas);
  const tools = JSON.stringify(Object.keys(schemas));
  return child.load(
    bundleOf(
      `for (const name of ${tools})
        tools[name] = { description: 'd', parameters: {}, handler: (args) => JSON.stringify(args) };
      ${code}`,
      { expected },
    ),
  );
}

/** Nests properties this deep. */
function nest(levels: number): object {
  let schema = {};
  for (let level = 0; level < levels; level += 1) schema = { properties: { a: schema } };
  return schema;
}

/** The registrations at publish of a version with these schemas. */
const registering = (schemas: Readonly<Record<string, string>>): Registrations =>
  registerParts({
    tools: Object.fromEntries(
      Object.entries(schemas).map(([name, schema]) => [name, { description: 'd', parameters: JSON.parse(schema) }]),
    ),
  });

const closed = '"type":"object","additionalProperties":false';
const code = "x');process.exit(1);//";
const html = '<!-- import( -->';
const child = testChild(t, jail);
await loadTools(child, {
  trip: JSON.stringify({
    type: 'object',
    properties: { city: { type: 'string' }, tags: { type: 'array', items: { enum: ['a'] } }, next: { $ref: '#' } },
    required: ['city'],
    additionalProperties: false,
  }),
  named: `{${closed},"properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"},"toString":{"type":"string"}}}`,
  needy: '{"type":"object","required":["__proto__","constructor","toString"]}',
  closed: `{${closed}}`,
  same: '{"properties":{"all":{"uniqueItems":true},"one":{"const":{"valueOf":1,"toString":2}}}}',
  code: JSON.stringify({ properties: { [code]: { const: code }, html: { const: html } }, required: [code] }),
  remote: '{"$ref":"http://127.0.0.1:1/schema.json"}',
  wrong: '{"type":"nonsense"}',
  loop: '{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}},"properties":{"a":{"$ref":"#/$defs/a"}}}',
  deep: JSON.stringify(nest(1_500)),
  choices: JSON.stringify({
    properties: { items: { items: { anyOf: Array.from({ length: 1_800 }, (_, index) => ({ const: index })) } } },
  }),
});
const callWith = async (name: string, args: string) => (await callTool(child, name, JSON.parse(args))).outcome;

t.test('arguments that fit reach the handler, and others are refused by path', async (t) => {
  const refused = async (args: unknown, field: string, message: RegExp) =>
    t.match(await callTool(child, 'trip', args), { outcome: 'invalid_arguments', errors: [{ field, message }] });
  t.match(await callTool(child, 'trip', { city: 'Bern', next: { city: 'Thun' } }), { outcome: 'answered' });
  await refused({}, 'arguments', /^must have required property 'city'$/);
  await refused({ city: 7 }, 'arguments.city', /^must be string$/);
  await refused({ city: 'Bern', more: 1 }, 'arguments', /^must not have the property “more”$/);
  await refused({ city: 'Bern', tags: ['a', 'b'] }, 'arguments.tags.1', /^must be one of /);
  await refused({ city: 'Bern', next: { city: 7 } }, 'arguments.next.city', /^must be string$/);
  for (const other of [null, [], 'x', 1]) await refused(other, 'arguments', /^must be object$/);
  t.match(await callTool(child, 'trip', { city: 7, tags: 1 }), {
    errors: [{ field: 'arguments.city' }, { field: 'arguments.tags', message: 'must be array' }],
  });
});

t.test('names that every object has are properties like others', async (t) => {
  const all = '{"__proto__":"a","constructor":"b","toString":"c"}';
  t.match(await callTool(child, 'named', JSON.parse(all)), { outcome: 'answered', answer: all });
  for (const name of ['__proto__', 'constructor', 'toString']) {
    t.equal(await callWith('named', `{"${name}":1}`), 'invalid_arguments', name);
    t.equal(await callWith('closed', `{"${name}":1}`), 'invalid_arguments', name);
    t.equal(await callWith('needy', all.replace(name, 'other')), 'invalid_arguments', name);
  }
  t.equal(await callWith('named', '{}'), 'answered');
  t.equal(await callWith('needy', all), 'answered');
  t.equal(await callWith('same', '{"all":[{"toString":1},{"toString":2},{"__proto__":1}]}'), 'answered');
  t.equal(await callWith('same', '{"all":[{"toString":1},{"toString":1}]}'), 'invalid_arguments');
  t.equal(await callWith('same', '{"one":{"toString":2,"valueOf":1}}'), 'answered');
});

t.test('a schema with text that looks like code is only text', async (t) => {
  t.match(await callTool(child, 'code', { [code]: code, html }), { outcome: 'answered' });
  t.match(await callTool(child, 'code', { [code]: 1 }), { outcome: 'invalid_arguments' });
  t.match(await callTool(child, 'code', { [code]: code, html: 'x' }), { outcome: 'invalid_arguments' });
});

t.test('a schema that cannot be used fails the call and says why', async (t) => {
  const failed = async (name: string, message: RegExp) =>
    t.match(await callTool(child, name, { a: 1 }), { outcome: 'failed', message });
  await failed('remote', /schema cannot be used: can't resolve reference http:\/\/127\.0\.0\.1/);
  await failed('wrong', /schema cannot be used: /);
  await failed('loop', /schema cannot be used: .*leads back to itself for the same value/);
  await failed('deep', /schema cannot be used: .*nested too deeply/);
  t.match(await callTool(child, 'loop', {}), { outcome: 'answered' }, 'the child goes on');
});

t.test('a schema of many choices has few errors', async (t) => {
  const items = Array.from({ length: amount({ quick: 500, soak: 50_000 }) }, () => 1_799);
  t.match(await callTool(child, 'choices', { items }, 300_000), { outcome: 'answered' });
  const refused = await callTool(child, 'choices', { items: ['none'] }, 30_000);
  t.match(refused, {
    outcome: 'invalid_arguments',
    errors: [{ field: 'arguments.items.0', message: /^must be \d+$/ }],
  });
  t.equal(refused.outcome === 'invalid_arguments' && refused.errors.length, 20);
});

/** Each takes longer than any budget of a test. */
const endless: Readonly<Record<string, readonly [schema: unknown, args: unknown]>> = {
  'a pattern that backtracks': [{ properties: { s: { pattern: '^(a+)+$' } } }, { s: `${'a'.repeat(60)}!` }],
  'references that multiply': [
    {
      $defs: Object.fromEntries(
        Array.from({ length: 60 }, (_, n) => {
          const next = { $ref: `#/$defs/d${n + 1}` };
          return [`d${n}`, n === 59 ? {} : { allOf: [next, next] }];
        }),
      ),
      properties: { a: { $ref: '#/$defs/d0' } },
    },
    { a: 1 },
  ],
  '50,000 items that must differ': [
    { properties: { items: { uniqueItems: true } } },
    { items: Array.from({ length: 50_000 }, (_, index) => [index]) },
  ],
};
const BUDGET_MS = 300;
for (const [name, [schema, args]] of listCases(endless, 'a pattern that backtracks')) {
  t.test(`${name} uses up the call's budget and ends the child`, async (t) => {
    const child = testChild(t, jail);
    await loadTools(child, { run: JSON.stringify(schema) });
    await t.rejects(callTool(child, 'run', args, BUDGET_MS), errorOf('timeout'));
    t.match(await child.ended, { requested: true, gone: true });
  });
}

soakTest(t, 'memory that a check uses up is the child’s own', async (t) => {
  const small = await testJail(t, { heapMegabytes: 32 });
  const child = testChild(t, small);
  // Each of the 2,000 errors of an item is an object, for all items at once.
  const allOf = Array.from({ length: 40 }, () => ({ anyOf: Array.from({ length: 50 }, () => ({ not: {} })) }));
  const schema = { properties: { items: { items: { anyOf: [{ contains: { allOf } }, { not: {} }] } } } };
  await loadTools(child, { run: JSON.stringify(schema) });
  const answer = callTool(child, 'run', { items: [Array.from({ length: 60_000 }, () => 1)] }, 60_000);
  t.match(await answer.catch((error) => error), /./, 'it is refused, or the child ends');
  const other = testChild(t, small);
  await loadTools(other, { run: '{"type":"object"}' });
  t.match(await callTool(other, 'run', {}), { outcome: 'answered' });
});

const TAMPER = `
  const attempts = [
    () => { Array.isArray = () => true; },
    () => { Array.prototype.push = () => 0; },
    () => { RegExp.prototype.test = () => true; },
    () => { RegExp.prototype.exec = () => ['']; },
    () => { Object.keys = () => []; },
    () => { Object.prototype.hasOwnProperty = () => true; },
    () => { Object.prototype.type = 'object'; },
    () => { JSON.parse = () => ({}); },
    () => { JSON.stringify = () => '{}'; },
    () => { Map.prototype.get = () => () => true; },
    () => { Promise.prototype.then = (use) => use(() => true); },
    () => { String.prototype.slice = () => ''; },
    () => { Error.prototype.message = 'x'; },
  ];
  for (const attempt of attempts) try { attempt(); } catch {}
`;
const SCHEMA = '{"type":"object","properties":{"s":{"type":"string","pattern":"^a$"}},"required":["s"]}';

t.test('code of the plugin cannot change the check', async (t) => {
  const child = testChild(t, jail);
  await child.load(
    bundleOf(`const schema = JSON.parse(${JSON.stringify(SCHEMA)});
      tools.run = { description: 'd', parameters: schema, handler: () => {
        schema.required.length = 0;
        delete schema.properties.s;
        tools.run.parameters.type = 'string';
        ${TAMPER}
        return 'ok';
      } };`),
  );
  t.match(await callTool(child, 'run', { s: 'a' }), { outcome: 'answered', answer: 'ok' });
  for (const bad of [{}, { s: 1 }, { s: 'b' }])
    t.match(await callTool(child, 'run', bad), { outcome: 'invalid_arguments' }, JSON.stringify(bad));
});

t.test('the check uses the schema that was published', async (t) => {
  const child = testChild(t, jail);
  const bundle = `tools.run = { description: 'd', parameters: { type: 'string' }, handler: () => 'ok' };`;
  const { schemaFaults } = await child.load(bundleOf(bundle, { expected: registering({ run: SCHEMA }) }));
  t.same(schemaFaults, [], 'schemas are judged at publish only');
  t.match(await callTool(child, 'run', { s: 'b' }), { outcome: 'invalid_arguments' });
  t.match(await callTool(child, 'run', { s: 'a' }), { outcome: 'answered' });
});

soakTest(t, 'a plugin that has taken over its realm fails alone', async (t) => {
  const program = await buildChild(fileURLToPath(new URL('../jail/open-realm.ts', import.meta.url)));
  // The bundler's process would be counted as left behind.
  await stopEsbuild();
  const open = await testJail(t, { program });
  const child = testChild(t, open);
  const loading = loadTools(child, { run: SCHEMA }, `setTimeout(() => { ${TAMPER} }, 20);`);
  const calls = loading.then(() => Promise.all([callTool(child, 'run', {}, 500), callTool(child, 'run', {}, 500)]));
  t.ok(await calls.catch((error) => error), 'whatever it answers');
  const other = testChild(t, open);
  await loadTools(other, { run: SCHEMA });
  t.match(await callTool(other, 'run', {}), { outcome: 'invalid_arguments' });
});
