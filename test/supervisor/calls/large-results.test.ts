/** Large results of host calls wait for a turn of the event loop before they are read, checked and sent. */
import t from 'tap';
import { KIB, MIB } from '../../../sdk/contract/limits.ts';
import { TEXT_MAX_CHARS } from '../../../sdk/contract/payloads.ts';
import { waitForLoopTurn } from '../../../service/timing/loop-turns.ts';
import { amount, soakTest } from '../../runner/soak.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const VALUES = 50_000;
const LARGE = JSON.stringify(Array.from({ length: VALUES }, () => 7));
const SMALL = JSON.stringify(['small']);

const fixture = await startSupervisorFixture(t);

const tool = (name: string, body: string) =>
  `tools.${name} = { description: 'd', parameters: { type: 'object' }, handler: async () => { ${body} } };`;

/** Installs a plugin that has a small and a large value, in a session of its own account. */
async function open(slug: string) {
  const own = fixture.withNewAccount();
  const code = [
    tool('many', `return String((await Promise.all([0, 1, 2].map(() => host.storage.get('large')))).flat().length);`),
    tool('small', `return String(await host.storage.get('small'));`),
    tool('messages', 'return String((await host.session.messages(1_000)).length);'),
  ].join('\n');
  const { accountId, installationId } = await own.install({
    slug,
    capabilities: ['host.storage', 'host.session'],
    code,
  });
  for (const [key, value] of [
    ['large', LARGE],
    ['small', SMALL],
  ] as const)
    await own.pool.query(
      'INSERT INTO installation_storage (installation_id, key, value, size_bytes) VALUES ($1, $2, $3, $4)',
      [installationId, key, value, value.length],
    );
  const session = await own.session();
  const run = async (name: string) => {
    const reply = await own.call('POST', `/sessions/${session}/tools/${slug}__${name}`, { arguments: {} });
    return reply.body.content?.[0]?.text ?? reply.body;
  };
  return { accountId, session, own, run };
}

/** Calls `onRows` for each result of statements on a table, before the supervisor receives it. */
function watchRows(table: string, onRows: (rows: readonly object[]) => void): () => void {
  const query = fixture.pool.query.bind(fixture.pool) as (...args: unknown[]) => Promise<{ rows: object[] }>;
  const watching = async (...args: unknown[]) => {
    const result = await query(...args);
    const [statement] = args as [string | { text: string }];
    if ((typeof statement === 'string' ? statement : statement.text).includes(table)) onRows(result.rows);
    return result;
  };
  fixture.pool.query = watching as unknown as SupervisorFixture['pool']['query'];
  return () => {
    fixture.pool.query = query as unknown as SupervisorFixture['pool']['query'];
  };
}

/** Calls `onLarge` when JSON of at least this length is read or written. */
function watchJson(minChars: number, onLarge: (what: 'read' | 'written') => void): () => void {
  const { parse, stringify } = JSON;
  JSON.parse = ((text: string, ...rest: []) => {
    if (text.length >= minChars) onLarge('read');
    return parse(text, ...rest);
  }) as typeof parse;
  JSON.stringify = ((value: unknown, ...rest: []) => {
    const text = stringify(value, ...rest);
    if (text?.length >= minChars) onLarge('written');
    return text;
  }) as typeof stringify;
  return () => Object.assign(JSON, { parse, stringify });
}

t.test('a large value waits for the turns before it, and each turn reads and sends one', async (t) => {
  const { run, accountId } = await open('large');
  t.equal(await run('small'), 'small', 'the plugin runs');
  const order: string[] = [];
  const unwatchRows = watchRows('installation_storage', () => {
    void waitForLoopTurn(accountId).then(() => order.push('turn'));
  });
  const unwatchJson = watchJson(LARGE.length, (what) => order.push(what));
  try {
    t.equal(await run('many'), String(3 * VALUES));
  } finally {
    unwatchJson();
    unwatchRows();
  }
  t.equal(order[0], 'turn');
  const results = order.filter((what) => what !== 'turn');
  t.same(results, ['read', 'written', 'read', 'written', 'read', 'written']);
  for (const [at, what] of order.entries()) if (what === 'read') t.equal(order[at + 1], 'written');
});

t.test('a small call of another account is answered between the large ones of one account', async (t) => {
  const [ann, ben] = [await open('many'), await open('few')];
  t.equal(await ann.run('small'), 'small', 'the plugin runs');
  const order: string[] = [];
  const unwatch = watchJson(LARGE.length, (what) => {
    order.push(what);
    if (order.length === 1) void waitForLoopTurn(ben.accountId).then(() => order.push('ben'));
  });
  try {
    await ann.run('many');
  } finally {
    unwatch();
  }
  const large = order.filter((what) => what !== 'ben');
  t.same(large, ['read', 'written', 'read', 'written', 'read', 'written']);
  // One more large result may have been the next one already.
  t.ok([2, 4].includes(order.indexOf('ben')), order.join());
});

soakTest(t, 'a large transcript waits for the turns before it', async (t) => {
  const { own, session, run, accountId } = await open('transcript');
  const data = Object.fromEntries(Array.from({ length: 9_000 }, (_, n) => [`key ${n}`, n]));
  await own.call('POST', `/sessions/${session}/messages`, {
    messages: [
      { role: 'user', text: 'a', data },
      { role: 'user', text: 'b', data },
    ],
  });
  t.equal(await run('small'), 'small', 'the plugin runs');
  const order: string[] = [];
  const unwatchRows = watchRows('session_messages', (rows) => {
    if (rows.length === 2) void waitForLoopTurn(accountId).then(() => order.push('turn'));
  });
  const unwatchJson = watchJson(2 * JSON.stringify(data).length, (what) => order.push(what));
  try {
    t.equal(await run('messages'), '2');
  } finally {
    unwatchJson();
    unwatchRows();
  }
  t.same(order.slice(0, 2), ['turn', 'written']);
});

const transcripts: readonly (readonly [what: string, text: string, count: number, expected: number])[] = [
  ['ASCII', 'x'.repeat(TEXT_MAX_CHARS), 16, 15],
  ['three bytes a character', '字'.repeat(TEXT_MAX_CHARS), 6, 5],
  ['100 KiB each', 'x'.repeat(100 * KIB), 41, 40],
  ['control characters, which take six bytes in JSON', '\u0001'.repeat(100_000), 40, 6],
];
for (const [what, text, count, expected] of amount({ quick: transcripts.slice(0, 1), soak: transcripts }))
  t.test(`a transcript of long messages has the newest that fit into a result: ${what}`, async (t) => {
    const { accountId, own, session, run } = await open(`long-${count}`);
    await own.pool.query(
      `INSERT INTO session_messages (session_id, account_id, id, role, text)
       SELECT $1, $2, 'm' || n, 'user', $3 FROM generate_series(1, $4::int) n`,
      [session, accountId, text, count],
    );
    t.equal(await run('messages'), String(expected));
  });

t.test('a transcript has its newest message, however large', async (t) => {
  const { accountId, own, session, run } = await open('huge');
  await own.pool.query(
    `INSERT INTO session_messages (session_id, account_id, id, role, text, data)
     SELECT $1, $2, 'm' || n, 'user', 'x', json_build_object('note', repeat('x', $3)) FROM generate_series(1, 2) n`,
    [session, accountId, 4 * MIB - KIB],
  );
  t.equal(await run('messages'), '1');
});
