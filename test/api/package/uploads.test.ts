/** Uploads over a real socket: the limit to the byte, bounded memory, nothing left behind. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { UPLOAD_MAX_BYTES, UPLOAD_MAX_MS } from '../../../api/package/upload.ts';
import { Rest } from '../../../sdk/cli/rest.ts';
import { soakTest } from '../../runner/soak.ts';
import { listen, startApiFixture } from '../api-fixture.ts';
import { fileList, introspectsMinimal, MINIMAL, multipartOf, zipOf } from './packages.ts';
import { zipOfSize } from './zip-crafting.ts';

const MIB = 1024 * 1024;
const LIMIT = 256 * MIB;
/** What the introspection of a package waits for. */
let introspecting = async (): Promise<void> => undefined;
const api = await startApiFixture(t, {
  interimMs: 20,
  introspect: async () => {
    await introspecting();
    return introspectsMinimal();
  },
});
const port = await listen(api);
const ann = await api.user('ann');
const { id } = (await ann.post('/plugins', { slug: 'large', displayName: 'Large' })).body;
const staged = () => readdir(join(api.dataDir, 'staging'));

interface Sent {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: a problem or a version
  readonly body: any;
}
/** Where the zip goes in its multipart body. */
const ZIP = '(zip)';
/** Sends a multipart body, the zip piece by piece and without a copy of it. `pause` is called after each piece. */
function send(
  semVer: string,
  zip: Buffer,
  options: { chunked?: boolean; pieces?: number; pause?: () => Promise<void> } = {},
): Promise<Sent> {
  const { payload: frame, headers } = multipartOf(
    { name: 'file', filename: 'p.zip', content: ZIP },
    { name: 'semVer', content: semVer },
  );
  const [before, after] = [frame.subarray(0, frame.indexOf(ZIP)), frame.subarray(frame.indexOf(ZIP) + ZIP.length)];
  return new Promise((resolve, reject) => {
    const outgoing = request({
      port,
      host: '127.0.0.1',
      method: 'POST',
      path: `/api/plugins/${id}/versions/zip`,
      headers: {
        ...headers,
        authorization: `Bearer ${ann.token}`,
        ...(options.chunked ? {} : { 'content-length': before.length + zip.length + after.length }),
      },
    });
    outgoing.on('error', reject);
    outgoing.on('response', async (incoming) => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      resolve({ status: incoming.statusCode ?? 0, body: JSON.parse(Buffer.concat(chunks).toString()) });
    });
    void (async () => {
      outgoing.write(before);
      const size = Math.ceil(zip.length / (options.pieces ?? 64));
      for (let start = 0; start < zip.length && !outgoing.destroyed; start += size) {
        if (!outgoing.write(zip.subarray(start, start + size)))
          await new Promise((drained) => outgoing.once('drain', drained));
        await options.pause?.();
      }
      outgoing.end(after);
    })();
  });
}

t.test('the connection of a publish may be silent until it is answered', async (t) => {
  const before: unknown[] = [];
  const during: unknown[] = [];
  let last: Socket | undefined;
  introspecting = async () => void during.push(last?.timeout);
  const onRequest = ({ socket }: IncomingMessage): void => {
    last = socket;
    before.push(socket.timeout);
  };
  const made = (await ann.post('/plugins', { slug: 'silent', displayName: 'Silent' })).body;
  api.app.server.prependListener('request', onRequest);
  t.teardown(() => api.app.server.off('request', onRequest));
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  const post = async (path: string, body: string | Buffer, headers: OutgoingHttpHeaders) => {
    const outgoing = request({
      port,
      host: '127.0.0.1',
      agent,
      method: 'POST',
      path: `/api/plugins/${made.id}${path}`,
      headers: { ...headers, authorization: `Bearer ${ann.token}` },
    });
    outgoing.end(body);
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
    await buffer(incoming);
    return incoming.statusCode;
  };
  const json = { 'content-type': 'application/json' };
  const files = fileList(MINIMAL);
  t.equal(await post('/versions', JSON.stringify({ semVer: '1.0.0', files }), json), 201);
  t.equal(await post('/draft', JSON.stringify({ files }), json), 200);
  const zip = multipartOf(
    { name: 'file', filename: 'p.zip', content: await zipOf(MINIMAL) },
    { name: 'semVer', content: '1.1.0' },
  );
  t.equal(await post('/versions/zip', zip.payload, zip.headers), 201);
  t.same(before, [120_000, 120_000, 120_000], 'each other time without traffic ends the connection');
  t.same(during, [0, 0, 0]);
  t.ok(api.app.server.requestTimeout >= UPLOAD_MAX_MS, 'the slowest upload that is not refused may arrive');
});

t.test('a publish that lasts sends the interim responses that the command line asks for', async (t) => {
  const beganAgain = Promise.withResolvers<void>();
  introspecting = () => beganAgain.promise;
  const made = (await ann.post('/plugins', { slug: 'lasting', displayName: 'Lasting' })).body;
  const url = `http://127.0.0.1:${port}`;
  let interims = 0;
  // Node publishes it for each response of `fetch`, also for an interim one.
  const onHeaders = (message: unknown): void => {
    const { response } = message as { response: { statusCode: number } };
    if (response.statusCode === 102) interims += 1;
    if (interims === 2) beganAgain.resolve();
  };
  subscribe('undici:request:headers', onHeaders);
  t.teardown(() => unsubscribe('undici:request:headers', onHeaders));
  const rest = new Rest({ url, token: ann.token, signal: AbortSignal.timeout(60_000) });
  const zip = multipartOf(
    { name: 'file', filename: 'p.zip', content: await zipOf(MINIMAL) },
    { name: 'semVer', content: '1.0.0' },
  );
  const open = () => new Blob([new Uint8Array(zip.payload)]).stream();
  const answer = await rest.upload(`/plugins/${made.id}/versions/zip`, zip.headers['content-type'] ?? '', open);
  t.match(answer, { semVer: '1.0.0' });
});

await soakTest(t, '256 MB exactly pass, with bounded memory', async (t) => {
  const zip = zipOfSize(LIMIT);
  t.equal(zip.length, LIMIT);
  let highest = 0;
  const { arrayBuffers } = process.memoryUsage();
  const watch = setInterval(() => {
    highest = Math.max(highest, process.memoryUsage().arrayBuffers - arrayBuffers);
  }, 10);
  const made = await send('1.0.0', zip);
  clearInterval(watch);
  t.equal(made.status, 201, JSON.stringify(made.body));
  t.ok(made.body.sizeBytes > LIMIT - 10_000);
  // V8 collects the pieces that were read when there are 64 MB of them, and meanwhile more arrive.
  t.ok(highest < LIMIT / 2, `${Math.round(highest / MIB)} MB of buffers`);
  t.same(await staged(), []);
});

t.test('an upload over the limit is rejected', async (t) => {
  t.equal(UPLOAD_MAX_BYTES, LIMIT);
  const refused = await send('1.0.1', Buffer.alloc(LIMIT + MIB));
  t.match(refused, { status: 413, body: { code: 'too_large' } });
  t.equal((await ann.get('/me')).status, 200, 'and the service goes on');
});

await soakTest(t, 'one byte over the limit is rejected, before or during the upload', async (t) => {
  const zip = Buffer.alloc(LIMIT + 1);
  // Without a length in its header, only the bytes that arrive say how large it is.
  for (const chunked of [false, true]) {
    const refused = await send('1.0.1', zip, { chunked });
    t.equal(refused.status, 413, `chunked ${chunked}: ${JSON.stringify(refused.body)}`);
    t.equal(refused.body.code, 'too_large');
    t.same(await staged(), []);
  }
});

t.test('an interrupted upload leaves nothing', async (t) => {
  const zip = await zipOf({ ...MINIMAL, 'assets/a': Buffer.alloc(MIB, 1) }, { compress: false });
  const { payload, headers } = multipartOf(
    { name: 'file', filename: 'p.zip', content: zip },
    { name: 'semVer', content: '2.0.0' },
  );
  for (let part = 1; part <= 9; part += 1) {
    const outgoing = request({
      port,
      host: '127.0.0.1',
      method: 'POST',
      path: `/api/plugins/${id}/versions/zip`,
      headers: { ...headers, authorization: `Bearer ${ann.token}`, 'content-length': payload.length },
    });
    outgoing.on('error', () => undefined);
    outgoing.write(payload.subarray(0, Math.floor((payload.length * part) / 10)));
    await sleep(40);
    outgoing.destroy();
  }
  while ((await staged()).length > 0) await sleep(20);
  t.pass('all of it was removed');
});

t.test('a slow upload passes while small requests are answered', async (t) => {
  const zip = await zipOf(MINIMAL);
  let answered = 0;
  const made = await send('3.0.0', zip, {
    pieces: 10,
    pause: async () => {
      await sleep(20);
      if ((await ann.get('/me')).status === 200) answered += 1;
    },
  });
  t.equal(made.status, 201);
  t.equal(answered, 10);
});

t.test('bytes that are not HTTP are answered with a problem', async (t) => {
  const { connect } = await import('node:net');
  const answer = await new Promise<string>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('NONSENSE\r\n\r\n'));
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    socket.on('close', () => resolve(text));
  });
  t.match(answer, /^HTTP\/1\.1 400 /);
  t.match(answer, /"code":"bad_request"/);
});
