/** Schemas of what children and strangers send, against data of as many faults as fit into a frame. */
import fc from 'fast-check';
import t from 'tap';
import { z } from 'zod';
import { configuration } from '../../api/installations/installation-input.ts';
import { boundedList } from '../../sdk/contract/bounded-list.ts';
import { boundedRecord } from '../../sdk/contract/bounded-record.ts';
import { providerRequest } from '../../sdk/contract/payloads.ts';
import { control, hooks, hostCalls, registrations, surfaces } from '../../sdk/contract/protocol.ts';
import { FRAME_VALUES_MAX } from '../../sdk/contract/untrusted-json.ts';
import { chatRequest } from '../../supervisor/sessions/chat-completions.ts';

const numbers: readonly number[] = Array(FRAME_VALUES_MAX).fill(1);
const objects: readonly object[] = numbers.map(() => ({}));
const name = <Value>(values: readonly Value[]) =>
  Object.fromEntries(values.map((value, index) => [`n${index}`, value]));

const init = hostCalls['http.fetch'].params.init;
const hostile: Readonly<Record<string, readonly [schema: z.ZodType, value: unknown]>> = {
  'headers of a signature': [hostCalls['secrets.verify'].params.headers, name(numbers)],
  'headers of a request': [init, { headers: name(numbers) }],
  'headers of a handshake': [surfaces['channel.handshake'].result, { status: 200, headers: name(numbers) }],
  'variables of a command': [hooks['middleware.sshCommand'].context.shape.env, name(numbers)],
  'a JSON Schema': [surfaces.tools.registration, { description: 'd', parameters: name(numbers.map(() => Number.NaN)) }],
  'hooks of a bundle': [registrations, { hooks: numbers }],
  'streams of a bundle': [registrations, { streams: numbers }],
  'events of a bundle': [registrations, { events: numbers }],
  'tools of a bundle': [registrations, { tools: name(objects) }],
  'commands of a bundle': [registrations, { commands: name(objects) }],
  'models of a bundle': [
    registrations,
    { providers: name(Array.from({ length: 1_000 }, () => ({ models: objects.slice(0, 100) }))) },
  ],
  'places of a loaded bundle': [control.load.result, { outcome: 'loaded', places: name(numbers) }],
  'faults of a loaded bundle': [control.load.result, { outcome: 'loaded', schemaFaults: objects }],
  'messages of a compaction': [hooks['compaction.summarize'].context.shape.messages, objects],
  'files of messages of a channel': [
    surfaces['channel.receive'].result,
    { messages: Array.from({ length: 100 }, () => ({ attachments: objects.slice(0, 50) })) },
  ],
  'calls in a request to a model': [
    providerRequest,
    { messages: Array.from({ length: 900 }, () => ({ role: 'user', text: '', toolCalls: objects.slice(0, 100) })) },
  ],
  'parts of a chat message': [
    chatRequest,
    { model: 'm', messages: [{ role: 'user', content: objects.slice(0, 1_000) }] },
  ],
  'calls of a chat message': [
    chatRequest,
    { model: 'm', messages: [{ role: 'user', tool_calls: objects.slice(0, 1_000) }] },
  ],
  'settings of an installation': [configuration, { settings: name(numbers) }],
};
/** More than a list that an author made may bring, each with its place. Each takes some microseconds. */
const ISSUES_MAX = 250;

for (const [what, [schema, value]] of Object.entries(hostile)) {
  t.test(`${what}: the faults of a whole frame are few issues`, async (t) => {
    const count = countIssues(schema.safeParse(value).error?.issues ?? []);
    t.ok(count > 0 && count <= ISSUES_MAX, `${count} issues`);
  });
}

function countIssues(issues: readonly z.core.$ZodIssue[]): number {
  return issues.reduce(
    (sum, issue) =>
      sum + 1 + (issue.code === 'invalid_union' ? issue.errors.map(countIssues).reduce((a, b) => a + b, 0) : 0),
    0,
  );
}

/** Texts of host calls that may fill a frame. The host counts their bytes before it reads them, or never reads them. */
const AS_LONG_AS_A_FRAME = [
  'http.fetch.init.body',
  'http.fetch.init.headers.<name>',
  'secrets.verify.headers.<name>',
  'ssh.run.options.env.*',
  'ssh.run.options.env.<name>',
  'workspace.write.content',
];

interface JsonSchema {
  readonly type?: string;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly propertyNames?: JsonSchema;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
}

/** The places of strings without a maximum length. */
function findUnbounded(schema: JsonSchema, place: string): string[] {
  const { additionalProperties: values, propertyNames, items, properties = {}, anyOf = [] } = schema;
  const below: [string, JsonSchema | undefined][] = [
    ...Object.entries(properties).map(([name, member]): [string, JsonSchema] => [`${place}.${name}`, member]),
    [`${place}.*`, typeof values === 'object' ? values : undefined],
    [`${place}.<name>`, propertyNames],
    [`${place}[]`, items],
    ...anyOf.map((option): [string, JsonSchema] => [place, option]),
  ];
  const isBounded =
    schema.maxLength !== undefined || schema.enum !== undefined || /\{\d,\d+\}\$$/.test(schema.pattern ?? '');
  return [
    ...(schema.type === 'string' && !isBounded ? [place] : []),
    ...below.flatMap(([at, member]) => (member ? findUnbounded(member, at) : [])),
  ];
}

t.test('texts that a plugin gives to the host have a length, except those that are counted first', (t) => {
  const unbounded = Object.entries(hostCalls).flatMap(([call, { params }]) =>
    findUnbounded(z.toJSONSchema(z.object(params), { unrepresentable: 'any', io: 'input' }) as JsonSchema, call),
  );
  t.same(unbounded.sort(), AS_LONG_AS_A_FRAME);
  t.end();
});

t.test('a bounded record accepts and reads what a record of zod does, up to its number of entries', async (t) => {
  const row = z.object({ a: z.string().default('none') });
  const [bounded, plain] = [boundedRecord(row, 3), z.record(z.string(), row)];
  const names = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', 'toString', '1'));
  const values = fc.oneof(fc.constant({}), fc.record({ a: fc.string(), b: fc.string() }), fc.constant(1));
  fc.assert(
    fc.property(fc.array(fc.tuple(names, values), { maxLength: 3 }), (entries) => {
      const given: unknown = JSON.parse(
        `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join()}}`,
      );
      const [read, expected] = [bounded.safeParse(given), plain.safeParse(given)];
      return t.same(read.data, expected.data) && t.same(read.error?.issues[0], expected.error?.issues[0]);
    }),
  );
  t.same(bounded.safeParse([]).error?.issues, plain.safeParse([]).error?.issues);
  t.match(bounded.safeParse(name([{}, {}, {}, {}])).error?.issues, [{ code: 'too_big', maximum: 3, path: [] }]);
  t.same(z.toJSONSchema(bounded), z.toJSONSchema(plain));
});

t.test('a bounded list accepts and reads what a list of zod does, up to its first wrong item', async (t) => {
  const row = z.object({ a: z.string().default('none') });
  const [bounded, plain] = [boundedList(row, 3).min(1), z.array(row).max(3).min(1)];
  const values = fc.oneof(fc.constant({}), fc.record({ a: fc.string(), b: fc.string() }), fc.constant(1));
  fc.assert(
    fc.property(fc.array(values, { maxLength: 4 }), (given) => {
      const [read, expected] = [bounded.safeParse(given), plain.safeParse(given)];
      return t.same(read.data, expected.data) && t.same(read.error?.issues[0], expected.error?.issues[0]);
    }),
  );
  t.same(bounded.safeParse({}).error?.issues, plain.safeParse({}).error?.issues);
  t.same(bounded.safeParse([1, 1]).error?.issues.length, 1);
  t.same(z.toJSONSchema(bounded), z.toJSONSchema(plain));
});
