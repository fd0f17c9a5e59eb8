/** Multipart and HTTP at their edges, over a real socket: every answer is a problem or a version, and no file stays. */
import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import multipart from '@fastify/multipart';
import t from 'tap';
import { receiveUpload, UPLOAD_BOUNDS } from '../../../api/package/upload.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { createServer } from '../../../service/http/application.ts';
import { listCases, soakTest } from '../../runner/soak.ts';
import { listen, startApiFixture } from '../api-fixture.ts';
import { introspectsMinimal, MINIMAL, multipartOf, zipOf } from './packages.ts';

// As many uploads at once as one request could keep for itself if it were not noticed that it is gone.
const api = await startApiFixture(t, { introspect: introspectsMinimal, limits: { uploadsAtOnce: 2 } });
const port = await listen(api);
const ann = await api.user('ann');
const { id } = (await ann.post('/plugins', { slug: 'edges', displayName: 'Edges' })).body;
const path = `/api/plugins/${id}/versions/zip`;
const zip = await zipOf(MINIMAL);
/** Lists the files in the staging directory. It counts as empty once it was empty for a while, because broken requests are noticed late. */
async function staged(): Promise<string[]> {
  const left = () => readdir(join(api.dataDir, 'staging'));
  for (let tries = 0, empty = 0; tries < 200 && empty < 5; tries += 1) {
    empty = (await left()).length === 0 ? empty + 1 : 0;
    await sleep(50);
  }
  return left();
}

/** Sends bytes as they are. @returns all that came back when the other side closed or `until` was read */
function raw(bytes: Buffer | string, until: RegExp = /\r\n\r\n[\s\S]*\}$/, to = port): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(to, '127.0.0.1', () => socket.write(bytes));
    if (until.test(text)) socket.once('ready', () => socket.destroy());
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
      if (until.test(text)) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(text));
  });
}
const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]);
const head = (lines: readonly string[]): string =>
  [`POST ${path} HTTP/1.1`, 'host: x', `authorization: Bearer ${ann.token}`, ...lines, '', ''].join('\r\n');
interface Sent {
  readonly boundary?: string;
  readonly body: Buffer | string;
  readonly lines?: readonly string[];
}
const send = ({ boundary = 'b', body, lines }: Sent) => {
  const length = [`content-length: ${Buffer.byteLength(body)}`];
  const type = `content-type: multipart/form-data; boundary=${boundary}`;
  return raw(Buffer.concat([Buffer.from(head([type, ...(lines ?? length)])), Buffer.from(body)]));
};
const part = (headers: readonly string[], content: Buffer | string = 'x') =>
  Buffer.concat([Buffer.from(`--b\r\n${headers.join('\r\n')}\r\n\r\n`), Buffer.from(content), Buffer.from('\r\n')]);
const END = Buffer.from('--b--\r\n');
const number = (semVer: string) => part(['content-disposition: form-data; name="semVer"'], semVer);
const fileHead = 'content-disposition: form-data; name="file"; filename="p.zip"';
const file = (...more: string[]) => part([fileHead, 'content-type: application/zip', ...more], zip);

t.test('envelopes', async (t) => {
  const cases: Record<string, [sent: Sent, statuses: readonly number[]]> = {
    'a boundary of 1 KB': [{ boundary: 'b'.repeat(1024), body: 'x' }, [400]],
    'an empty boundary': [{ boundary: '', body: 'x' }, [400, 415]],
    'no part ends': [{ body: Buffer.concat([number('1.0.0'), Buffer.from(`--b\r\n${fileHead}\r\n\r\n`), zip]) }, [400]],
    'nothing but the end': [{ body: END }, [400]],
    'ten thousand parts': [{ body: Buffer.concat([...Array(10_000).fill(number('1.0.0')), END]) }, [400]],
    'a thousand headers in a part': [
      { body: Buffer.concat([number('1.0.0'), file(...Array.from({ length: 1_000 }, (_, at) => `x-${at}: 1`)), END]) },
      [201, 400],
    ],
    'a part with a header of 1 MB': [{ body: Buffer.concat([file(`x-long: ${'x'.repeat(1 << 20)}`), END]) }, [400]],
    'a part without headers': [{ body: Buffer.concat([Buffer.from('--b\r\n\r\nx\r\n'), END]) }, [400]],
    'a field of 5 MB as the number': [{ body: Buffer.concat([number('1'.repeat(5 << 20)), file(), END]) }, [413, 422]],
    'a file name in another coding': [
      {
        body: Buffer.concat([
          number('1.0.1'),
          part(['content-disposition: form-data; name="file"; filename*=UTF-8\'\'..%2F..%2Fetc%2Fpasswd'], zip),
          END,
        ]),
      },
      [201],
    ],
    'a file name with NUL and line ends': [
      { body: Buffer.concat([number('1.0.2'), part([fileHead.replace('p.zip', '../\0a%0d%0a')], zip), END]) },
      [201, 400],
    ],
    'the number after the file': [{ body: Buffer.concat([file(), number('1.0.3'), END]) }, [201]],
    'junk before the first part and after the last': [
      { body: Buffer.concat([Buffer.from('junk\r\n'), number('1.0.4'), file(), END, Buffer.from('junk')]) },
      [201, 400],
    ],
  };
  const quick = ['no part ends', 'a part with a header of 1 MB', 'a field of 5 MB as the number'];
  quick.push('a file name in another coding', 'a file name with NUL and line ends', 'the number after the file');
  for (const [name, [sent, statuses]] of listCases(cases, ...quick)) {
    const answer = await send(sent);
    t.ok(statuses.includes(statusOf(answer)), `${name}: ${answer.slice(0, 40)} ${answer.slice(-160)}`);
    t.same(await staged(), [], `${name}: no file stays`);
  }
});

t.test('lengths that do not agree', async (t) => {
  const body = Buffer.concat([number('2.0.0'), file(), END]);
  const type = 'content-type: multipart/form-data; boundary=b';
  const both = head([type, `content-length: ${body.length}`, 'transfer-encoding: chunked']);
  const smuggled = await raw(Buffer.concat([Buffer.from(both), Buffer.from('0\r\n\r\nGET /api/me HTTP/1.1\r\n\r\n')]));
  t.equal(statusOf(smuggled), 400, 'length and chunks together');
  t.equal(smuggled.match(/HTTP\/1\.1 /g)?.length, 1, 'nothing behind it is taken for a request');
  const twice = await raw(head([type, 'content-length: 5', 'content-length: 6']));
  t.equal(statusOf(twice), 400, 'two lengths');
  for (const coding of ['chunked, identity', 'xchunked', 'chunked\r\n x'])
    t.ok(statusOf(await raw(head([type, `transfer-encoding: ${coding}`]))) >= 400, JSON.stringify(coding));
  const badChunk = await raw(`${head([type, 'transfer-encoding: chunked'])}zz\r\nx\r\n`);
  t.equal(statusOf(badChunk), 400, 'a chunk without a size');
  t.same(await staged(), []);
  const short = await send({ body: body.subarray(0, 200), lines: ['content-length: 200'] });
  t.equal(statusOf(short), 400, 'a body that ends in the middle of a part');
  t.same(await staged(), []);
});

t.test('uploads that are gone before they are read give their places back', async (t) => {
  t.same(await staged(), []);
  const type = 'content-type: multipart/form-data; boundary=b';
  for (const [name, rest] of Object.entries({
    'a broken chunk': `${head([type, 'transfer-encoding: chunked'])}zz\r\n`,
    'nothing after the headers': head([type, 'content-length: 1000']),
  }))
    for (let times = 0; times < 4; times += 1) {
      const answer = raw(rest, /^/);
      const status = statusOf(await answer);
      t.ok(Number.isNaN(status) || status === 400, `${name}: ${status}`);
    }
  t.same(await staged(), []);
  const body = Buffer.concat([number('2.1.0'), file(), END]);
  t.equal(statusOf(await send({ body })), 201);
});

t.test('a slow upload succeeds; one that stops is ended and frees its place', async (t) => {
  const body = Buffer.concat([number('2.2.0'), file(), END]);
  const type = 'content-type: multipart/form-data; boundary=b';
  const begun = (length: number) => Buffer.from(head([type, `content-length: ${length}`]));
  const drip = async (pieces: number): Promise<string> => {
    let answer = '';
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      answer += chunk;
      if (/\}$/.test(answer)) socket.destroy();
    });
    socket.write(begun(body.length));
    const size = Math.ceil(body.length / 20);
    for (let piece = 0; piece < pieces; piece += 1) {
      socket.write(body.subarray(piece * size, (piece + 1) * size));
      await sleep(50);
    }
    await closed;
    return answer;
  };
  const slow = await drip(20);
  t.equal(statusOf(slow), 201, slow.slice(0, 300));
  // The service's own patience with a silent connection, made short.
  const { timeout } = api.app.server;
  api.app.server.setTimeout(1_000);
  const stopped = await Promise.all([drip(5), drip(10)]);
  api.app.server.setTimeout(timeout);
  for (const answer of stopped) t.notMatch(answer, /HTTP\/1\.1 2/);
  t.same(await staged(), []);
  t.equal(statusOf(await send({ body: Buffer.concat([number('2.3.0'), file(), END]) })), 201, 'both places are free');
});

t.test('an upload that dribbles or grows beyond its limit is refused', async (t) => {
  const app = createServer({ bodyMaxBytes: 2 * MIB, server: {} });
  await app.register(multipart);
  app.post('/', async (request) => {
    await using staging = await api.services.blobs.stage();
    await receiveUpload(request, staging, { ...UPLOAD_BOUNDS, withinMs: 50 });
  });
  app.post('/small', async (request) => {
    await using staging = await api.services.blobs.stage();
    await receiveUpload(request, staging, { ...UPLOAD_BOUNDS, maxBytes: MIB });
  });
  t.teardown(() => app.close());
  const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }));
  const part = file();
  const halves = { 'before its file': '', 'in the middle of its file': part.subarray(0, part.length / 2) };
  for (const [when, half] of Object.entries(halves)) {
    const type = 'content-type: multipart/form-data; boundary=b';
    const request = `POST / HTTP/1.1\r\nhost: x\r\n${type}\r\ncontent-length: ${MIB}\r\n\r\n`;
    const answer = await raw(Buffer.concat([Buffer.from(request), Buffer.from(half)]), undefined, Number(port));
    t.equal(statusOf(answer), 400, when);
    t.match(answer, /The request's body comes at less than 32 KiB per second\. Send it over a faster connection\./);
  }
  // Without a length in its header, only the bytes that arrive say how large it is.
  const type = 'content-type: multipart/form-data; boundary=b';
  const head = `POST /small HTTP/1.1\r\nhost: x\r\n${type}\r\ntransfer-encoding: chunked\r\n\r\n`;
  const body = Buffer.concat([part, Buffer.alloc(MIB)]).subarray(0, MIB + 1);
  const chunk = `${body.byteLength.toString(16)}\r\n`;
  t.equal(statusOf(await raw(Buffer.concat([Buffer.from(head + chunk), body]), undefined, Number(port))), 413);
  t.same(await staged(), []);
});

t.test('headers', async (t) => {
  const get = (...lines: string[]) =>
    raw(['GET /api/me HTTP/1.1', 'host: x', `authorization: Bearer ${ann.token}`, ...lines, '', ''].join('\r\n'));
  t.equal(statusOf(await get('__proto__: x', 'constructor: y', 'toString: z')), 200, 'names of a prototype');
  t.equal(statusOf(await get('__proto__: x', '__proto__: y')), 200, 'twice');
  t.equal(statusOf(await get(`x-long: ${'x'.repeat(100_000)}`)), 413, 'too long');
  t.equal(statusOf(await get('x-latin: caf\xe9')), 200, 'letters beyond ASCII');
  t.equal(statusOf(await get('bad name: x')), 400, 'a name with a blank');
  t.equal(statusOf(await get('x-a: b\0c')), 400, 'NUL');
  t.equal(statusOf(await raw('GET /api/me HTTP/1.1\r\n\r\n')), 400, 'no host');
  const unknownMethod = await raw('FOO /webhook/plugin/x HTTP/1.1\r\nhost: x\r\n\r\n');
  t.equal(statusOf(unknownMethod), 400);
  t.match(unknownMethod, /The request is not valid HTTP, or has a method that this server does not know\./);
  t.equal(statusOf(await raw('GET /api/\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n')) >= 400, true, 'a path beyond ASCII');
  t.equal((await ann.get('/me')).status, 200, 'and the service goes on');
});

await soakTest(t, 'five hundred idle connections do not block other requests', async (t) => {
  const idle = Array.from({ length: 500 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
  t.teardown(() => {
    for (const socket of idle) socket.destroy();
  });
  await Promise.all(idle.map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
  for (const socket of idle) socket.write('POST /api/plugins HTTP/1.1\r\nhost: x\r\n');
  const { payload, headers } = multipartOf(
    { name: 'semVer', content: '3.0.0' },
    { name: 'file', filename: 'p.zip', content: zip },
  );
  const answer = await raw(
    Buffer.concat([
      Buffer.from(
        head([
          ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
          `content-length: ${payload.length}`,
        ]),
      ),
      payload,
    ]),
  );
  t.equal(statusOf(answer), 201, answer.slice(0, 300));
});
