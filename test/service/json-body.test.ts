/** JSON bodies are bounded before they are parsed: in bytes, in values, in depth, and in what is in flight at once. */
import { EventEmitter, on, once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import { UPLOAD_BOUNDS } from '../../api/package/upload.ts';
import { KIB, MIB } from '../../sdk/contract/limits.ts';
import { createApplication } from '../../service/http/application.ts';
import { postponeEnd, readBody } from '../../service/http/body-reader.ts';
import { ByteBudget } from '../../service/http/byte-budget.ts';
import { readJsonBodies } from '../../service/http/json-body.ts';

const PROCESS_BYTES = 3 * MIB;
const ACCOUNT_BYTES = 2 * MIB;

const app = createApplication({
  logger: pino({ level: 'silent' }),
  bodyMaxBytes: MIB,
  server: {},
  onResponse: () => undefined,
});
/** `arrived` with the length of each piece of a body, `closed` at the end of each request. */
const progress = new EventEmitter();
/** By the step of requests that it holds: `before` or `in` the handler. */
const gates = new Map<string, Promise<void>>();
await app.register(async (scope) => {
  scope.decorateRequest('caller', null);
  scope.addHook('onRequest', async (request) => {
    request.caller = { id: String(request.headers.account), email: null, name: null } as never;
    request.raw.on('data', ({ byteLength }: Buffer) => progress.emit('arrived', byteLength));
    if (request.headers.leaves === 'at the end') request.raw.once('end', () => request.raw.socket.destroy());
  });
  readJsonBodies(scope, { processBytes: PROCESS_BYTES, accountBytes: ACCOUNT_BYTES });
  // After the budget's own listener.
  scope.addHook('onRequest', async (_request, { raw }) => void raw.once('close', () => progress.emit('closed')));
  scope.post('/echo', async ({ body }) => ({ body }));
  scope.post('/names', { config: { anyPropertyNames: true } }, async ({ body }) => ({ json: JSON.stringify(body) }));
  scope.addHook('preHandler', async ({ headers }) => {
    if (headers.held !== 'before') return;
    progress.emit('before');
    await gates.get('before');
    if (headers.refused === 'yes') throw new Error('refused');
  });
  scope.post('/held', { bodyLimit: 2 * MIB }, async ({ body }) => {
    progress.emit('in', body);
    await gates.get('in');
    return {};
  });
  scope.post('/long', { bodyLimit: 2 * MIB }, async ({ body }) => ({ body }));
});
const slow = new Readable({ read: () => undefined });
app.get('/unread', async () => ({}));
app.get('/slow', async (_request, reply) => reply.type('text/plain').send(slow));
const url = await app.listen({ port: 0, host: '127.0.0.1' });
t.teardown(() => app.close());

async function post(text: string | Uint8Array<ArrayBuffer>, path = '/echo', account = 'ann') {
  const headers = { 'content-type': 'application/json', account };
  const response = await fetch(`${url}${path}`, { method: 'POST', headers, body: text });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  return { status: response.status, headers: response.headers, body: (await response.json()) as any };
}

/** Sends the head of a request and a part of its body, and waits until that has arrived. */
async function sendPart(account: string, bytes: number, length = 2 * MIB): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => undefined);
  const head = `POST /long HTTP/1.1\r\nhost: x\r\naccount: ${account}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
  const pieces = on(progress, 'arrived');
  socket.write(head);
  socket.write(Buffer.alloc(bytes, ' '));
  let arrived = 0;
  for await (const [pieceBytes] of pieces) {
    arrived += pieceBytes;
    if (arrived >= bytes) break;
  }
  return socket;
}

t.test('a text that PostgreSQL cannot store is refused by the name of its field, and nothing is altered', async (t) => {
  const refused: readonly [body: string, field: string][] = [
    ['{"a": [1, {"b": "x\\u0000"}]}', 'a.1.b'],
    ['{"a": {"b\\ud83d": 1}}', 'a.b\ufffd'],
    ['{"a": "\\uDC00 \\uD83D"}', 'a'],
    ['{"\\u0000": 1}', '\ufffd'],
    [`{"a": "${'x'.repeat(2_000)}\\ud800"}`, 'a'],
    ['"\\udfff"', ''],
  ];
  for (const [body, field] of refused) {
    const answer = await post(body);
    const errors = [
      { field, message: 'must not contain U+0000 or lone surrogates: remove them, or replace them with U+FFFD' },
    ];
    t.match(answer, { status: 400, body: { code: 'bad_request', errors } }, body.slice(-40));
  }
  const texts = ['\\u0000', '\\ud800', '\u{1f600}', '\ufffd', '\u0001\u007f\u2028\ufeff', 'e\u0301'];
  for (const text of texts) {
    const body = { [text]: [text, { a: text }] };
    t.strictSame((await post(JSON.stringify(body))).body, { body });
  }
  const escaped = '{"a":"\\ud83d\\ude00 \\\\u0000"}';
  t.strictSame((await post(escaped)).body, { body: { a: '\u{1f600} \\u0000' } });
  t.strictSame((await post('\ufeff{"a":1}')).body, { body: { a: 1 } }, 'a byte order mark is no part of it');
  const names = '{"__proto__":{"constructor":{"prototype":1}},"toString":1}';
  t.equal((await post(names, '/names')).body.json, names);
});

t.test('a body with too many values or levels is refused before it is parsed', async (t) => {
  const values = (count: number) => `[${'1,'.repeat(count - 2)}1]`;
  t.equal((await post(values(20_000))).status, 200);
  const tooMany = await post(values(20_001));
  t.equal(tooMany.status, 413);
  t.equal(tooMany.body.detail, 'The body holds more than 20000 values. Send fewer, in several requests.');
  t.equal((await post(values(30_000), '/long')).status, 200, 'an address that accepts more bytes accepts more values');
  const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
  t.equal((await post(nested(100))).status, 200);
  const tooDeep = await post(nested(101));
  t.equal(tooDeep.status, 400);
  t.equal(tooDeep.body.detail, 'The body nests deeper than 100 levels. Send flatter JSON.');
  const text = `"${'[{,\\"'.repeat(50_000)}"`;
  t.same((await post(text)).body, { body: JSON.parse(text) }, 'text is not counted, whatever it looks like');
});

t.test('a number that would become another one is refused', async (t) => {
  const kept = ['9007199254740991', '9007199254740992', '100000000000000000000', '1e308', '0.1'];
  for (const number of [...kept, '12345678901234567000', '3.14159265358979323846', '1E-400', '"9007199254740993"'])
    t.equal((await post(`{"a":${number}}`)).status, 200, number);
  for (const number of ['9007199254740993', '-9223372036854775808', '1e400', '-1E+309', `1${'0'.repeat(400)}`]) {
    const { status, body } = await post(`[{"a":${number}}]`);
    t.equal(status, 400, number);
    t.match(
      body.detail,
      /^The body holds the number -?[\dE+e]+…?, which a double cannot hold\. Send it as a string\.$/,
    );
  }
});

t.test('a value that JSON does not have is named with its place', async (t) => {
  for (const [text, place] of [
    ['{"a": "NaN",\n "b": NaN}', 'line 2, column 7: NaN'],
    ['[1, Infinity]', 'line 1, column 5: Infinity'],
    ['{"a": "\\"None", "b": None}', 'line 1, column 22: None'],
    ['{"a": True}', 'line 1, column 7: True'],
  ] as const)
    t.equal((await post(text)).body.detail, `The body is not valid JSON: ${place} is not a value of JSON.`);
  t.equal((await post(`?${'"\\'.repeat(100_000)}`)).body.detail, 'The body is not valid JSON.');
});

t.test('a large body is parsed in a thread, by the same rules', async (t) => {
  const padding = 'x'.repeat(1.5 * MIB);
  t.same((await post(JSON.stringify({ padding }), '/long')).body, { body: { padding } });
  t.equal((await post(`{"padding":"${padding}"`, '/long')).status, 400);
  t.equal((await post(`{"padding":"${padding}","list":[${'{},'.repeat(40_000)}{}]}`, '/long')).status, 413);
  const bytes = new Uint8Array([...Buffer.from(`"${padding}`), 0xff, 0x22]);
  t.equal((await post(bytes, '/long')).body.detail, 'The body is not valid JSON: it is not UTF-8.');
  t.equal((await post(`{"__proto__":{"a":1},"b":"${padding}"}`, '/long')).status, 400);
});

t.test('refused bodies are read on, however many clients left in the middle of one before', async (t) => {
  for (let count = 0; count < 20; count += 1) {
    const socket = await sendPart('ann', 1);
    const closed = once(progress, 'closed');
    socket.destroy();
    await closed;
  }
  for (let count = 0; count < 20; count += 1) {
    const closed = once(app.server, 'connection').then(([accepted]) => once(accepted, 'close'));
    const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1');
    const answered = once(socket, 'data');
    const head = 'POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';
    socket.write(`${head}content-length: ${8 * MIB}\r\n\r\n{`);
    const [answer] = await answered;
    t.match(answer, /^HTTP\/1\.1 413 /);
    t.notMatch(answer, /\r\nconnection: close\r\n/i, 'also of clients that leave after the answer');
    socket.destroy();
    await closed;
  }
});

t.test('of many refused bodies the newest are read on, and the connections of the oldest are closed', async (t) => {
  const port = Number(new URL(url).port);
  const head = `POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${8 * MIB}\r\n\r\n`;
  const sockets: Socket[] = [];
  const closed: number[] = [];
  const { promise: rest, resolve } = Promise.withResolvers<void>();
  for (let count = 0; count < 24; count += 1) {
    const socket = connect(port, '127.0.0.1').setEncoding('utf8');
    socket.on('error', () => undefined);
    socket.on('close', () => {
      closed.push(count);
      if (closed.length === 8) resolve();
    });
    sockets.push(socket);
    const answered = once(socket, 'data');
    socket.write(`${head}{"half":"`);
    t.match((await answered)[0], /^HTTP\/1\.1 413 /);
  }
  await rest;
  t.same(
    closed.toSorted((a, b) => a - b),
    [0, 1, 2, 3, 4, 5, 6, 7],
  );
  for (const socket of sockets) socket.destroy();
});

t.test('incomplete bodies count against the limit of their account only', async (t) => {
  const first = await sendPart('ann', 1.5 * MIB);
  const refused = await post(JSON.stringify('x'.repeat(MIB - 2)));
  t.equal(refused.status, 429);
  t.equal(refused.headers.get('retry-after'), '1');
  t.match(refused.body.detail, /^This account already has 2 MiB of requests in flight\./);
  t.equal((await post(JSON.stringify('x'.repeat(MIB - 2)), '/echo', 'ben')).status, 200);
  const second = await sendPart('ben', MIB);
  const full = await post(JSON.stringify('x'.repeat(MIB / 2)), '/echo', 'cid');
  t.equal(full.status, 503);
  t.match(full.body.detail, /^The service is close to its 3 MiB of requests in flight\./);
  t.equal((await post(JSON.stringify('x'.repeat(MIB / 4)), '/echo', 'cid')).status, 200, 'there is room for the next');
  for (const socket of [first, second]) {
    const closed = once(progress, 'closed');
    socket.destroy();
    await closed;
  }
  t.equal((await post(JSON.stringify('x'.repeat(MIB - 2)))).status, 200, 'what is gone counts no more');
});

/** Sends a whole request. */
function sendWhole(body: string, headers: Readonly<Record<string, string>>): Socket {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => undefined);
  const more = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(
    `POST /held HTTP/1.1\r\nhost: x\r\naccount: ann\r\ncontent-type: application/json\r\n${more.join('')}content-length: ${body.length}\r\n\r\n${body}`,
  );
  return socket;
}

const HELD: readonly (readonly [gate: string, headers: Readonly<Record<string, string>>, why: string])[] = [
  ['in', {}, 'its handler has ended'],
  ['before', { held: 'before' }, 'it was checked, and its handler has ended'],
  ['before', { held: 'before', refused: 'yes' }, 'a check has refused it'],
];
for (const [gate, headers, why] of HELD)
  t.test(`a body whose client has left counts until ${why}`, async (t) => {
    const body = JSON.stringify('x'.repeat(1.5 * MIB));
    const { promise, resolve } = Promise.withResolvers<void>();
    gates.set(gate, promise);
    const held = once(progress, gate);
    const socket = sendWhole(body, headers);
    await held;
    const closed = once(progress, 'closed');
    socket.destroy();
    await closed;
    t.equal((await post(body, '/long')).status, 429);
    resolve();
    t.equal((await post(body, '/long')).status, 200);
  });

t.test('a large body whose client left before its turn is not handled', async (t) => {
  const handled: unknown[] = [];
  const note = (body: unknown) => handled.push(body);
  progress.on('in', note);
  t.teardown(() => progress.off('in', note));
  const closed = once(progress, 'closed');
  sendWhole(JSON.stringify('first'.padEnd(20 * KIB)), { leaves: 'at the end' });
  await closed;
  t.equal((await post(JSON.stringify('second'.padEnd(20 * KIB)), '/held')).status, 200);
  t.equal(handled.length, 1);
  t.match(handled[0], /^second/);
});

t.test('an account may send so many bodies at once, and hold no more connections with slow ones', async (t) => {
  const sockets: Socket[] = [];
  for (let count = 0; count < 128; count += 1) sockets.push(await sendPart('ann', 1, KIB));
  const refused = await post('{}');
  t.equal(refused.status, 429);
  t.equal(refused.headers.get('retry-after'), '1');
  t.equal(
    refused.body.detail,
    '128 of your requests have not sent their whole bodies yet. Send fewer bodies at once. Retry after 1 s.',
  );
  t.equal((await post('{}', '/echo', 'ben')).status, 200);
  const [slow, ...others] = sockets as [Socket, ...Socket[]];
  const answered = once(slow.setEncoding('latin1'), 'data');
  slow.write(`"${'x'.repeat(KIB - 3)}"`);
  t.match((await answered)[0], /^HTTP\/1\.1 200 /, 'a slow body is used when it has arrived');
  t.equal((await post('{}')).status, 200, 'and makes room for another');
  slow.destroy();
  for (const socket of others) {
    const closed = once(progress, 'closed');
    socket.destroy();
    await closed;
  }
});

t.test('accounts that take all they get leave room for others', async (t) => {
  const budget = new ByteBudget({ processBytes: 256 * MIB, accountBytes: 32 * MIB });
  // Eight times the most of one account would be everything.
  for (let account = 0; account < 8; account += 1) {
    const isFull = () => {
      try {
        budget.reserve(`hostile ${account}`, MIB);
        return false;
      } catch {
        return true;
      }
    };
    while (!isFull());
  }
  t.doesNotThrow(() => budget.reserve('ann', 5 * MIB));
  t.doesNotThrow(() => budget.reserve('ben', MIB));
});

t.test('a body in tiny chunks is refused, and no more of it is kept or read', async (t) => {
  const port = Number(new URL(url).port);
  const tinyChunks = (count: number, size: number) => `${size}\r\n${'1'.repeat(size)}\r\n`.repeat(count);
  const head =
    'POST /echo HTTP/1.1\r\nhost: x\r\naccount: ann\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n';
  const socket = connect(port, '127.0.0.1')
    .on('error', () => undefined)
    .setEncoding('latin1');
  const answered = once(socket, 'data');
  const closed = once(socket, 'close');
  socket.write(`${head}${tinyChunks(5_000, 1)}`);
  const [answer] = await answered;
  t.match(answer, /^HTTP\/1\.1 400 .*comes in chunks of less than 16 bytes\. Send larger chunks\./s);
  // The rest is discarded without a pause until it, too, has too many tiny chunks.
  socket.write(tinyChunks(5_000, 1));
  await closed;
  const few = `${head}${tinyChunks(4_000, 1)}`;
  const small = connect(port, '127.0.0.1').setEncoding('latin1');
  small.write(`${few}0\r\n\r\n`);
  t.match((await once(small, 'data'))[0], /^HTTP\/1\.1 400 .*which a double cannot hold/s, 'few are read');
  small.destroy();
});

t.test('a body of a request that is answered without it has the limits of a refused one', async (t) => {
  const head = 'GET /unread HTTP/1.1\r\nhost: x\r\n';
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
    .on('error', () => undefined)
    .setEncoding('latin1');
  const closed = once(socket, 'close');
  socket.write(`${head}content-length: 2\r\n\r\n`);
  t.match((await once(socket, 'data'))[0], /^HTTP\/1\.1 200 /);
  const next = once(socket, 'data');
  socket.write(`{}${head}transfer-encoding: chunked\r\n\r\n`);
  t.match((await next)[0], /^HTTP\/1\.1 200 /, 'a connection whose body has ended serves the next request');
  socket.write('1\r\n1\r\n'.repeat(5_000));
  await closed;
});

t.test('a body that arrives while its request is answered does not cut the answer off', async (t) => {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
    .on('error', () => undefined)
    .setEncoding('latin1');
  const closed = once(socket, 'close');
  socket.write('GET /slow HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n');
  slow.push('first');
  t.match((await once(socket, 'data'))[0], 'first');
  socket.write('1\r\n1\r\n'.repeat(5_000));
  for (let turns = 0; turns < 100; turns += 1) await new Promise(setImmediate);
  slow.push('last');
  slow.push(null);
  t.match((await Promise.race([once(socket, 'data'), closed]))[0], 'last');
  await closed;
});

t.test('many requests whose bodies arrive late keep their connections', async (t) => {
  const sockets = Array.from({ length: 40 }, () =>
    connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1'),
  );
  t.teardown(() => sockets.map((socket) => socket.destroy()));
  const send = async (text: string): Promise<void> => {
    const answered = sockets.map((socket) => once(socket, 'data'));
    for (const socket of sockets) socket.write(text);
    for (const [answer] of await Promise.all(answered)) t.match(answer, /^HTTP\/1\.1 200 /);
  };
  const head = 'GET /unread HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n';
  await send(head);
  await send(`{}${head}`);
});

t.test('a body that stops arriving is refused, whoever sends it', async (t) => {
  const stopped = new Readable({ read: () => undefined });
  stopped.push('half');
  const refused = readBody(stopped, '9', { maxBytes: 9, withinMs: 10 });
  await t.rejects(refused, { code: 'bad_request', message: /^The request's body took longer than 0\.01 s/ });
});

t.test('a body with a least rate may last as long as it comes at that rate', async (t) => {
  const { withinMs, leastBytesPerSecond = 0 } = UPLOAD_BOUNDS;
  /** Milliseconds after which it is refused, where each second has that many bytes. */
  const lastingMs = (bytesOfSecond: (second: number) => number): number => {
    let endsAt = withinMs;
    for (let now = 0; now < 3_600_000; now += 1_000) {
      if (endsAt <= now) return endsAt;
      endsAt = postponeEnd(endsAt, bytesOfSecond(now / 1_000), now, UPLOAD_BOUNDS);
    }
    return Number.POSITIVE_INFINITY;
  };
  t.equal(
    lastingMs(() => 64 * KIB),
    Number.POSITIVE_INFINITY,
  );
  t.equal(
    lastingMs((second) => (second % 25 < 15 ? 64 * KIB : 0)),
    Number.POSITIVE_INFINITY,
    'a line that is away for ten seconds at a time',
  );
  t.ok(lastingMs(() => leastBytesPerSecond / 2) < 3 * withinMs, 'half of the rate');
  t.ok(lastingMs(() => 1) < 1.1 * withinMs, 'a dribble');
  t.equal(
    lastingMs((second) => (second === 0 ? 200 * MIB : 0)),
    withinMs,
    'what came fast allows no longer silence',
  );
  const slow = new Readable({ read: () => undefined });
  slow.push('half');
  const refused = readBody(slow, '9', { maxBytes: 9, withinMs: 10, leastBytesPerSecond: 1_000 * KIB });
  await t.rejects(refused, { message: /^The request's body comes at less than 1000 KiB per second\. Send it over a / });
});

t.test('an answered body counts no more', async (t) => {
  for (let count = 0; count < 8; count += 1) t.equal((await post(JSON.stringify('x'.repeat(MIB - 2)))).status, 200);
});
