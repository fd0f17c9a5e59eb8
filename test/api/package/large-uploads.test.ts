/** The cost of large and hostile uploads for the real API process, ten of them at once. */
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { soakTest } from '../../runner/soak.ts';
import { startApiProcess } from '../api-process.ts';
import { fileList, MINIMAL, MINIMAL_INTROSPECTION, multipartOf } from './packages.ts';
import { craftZip, zipOfSize } from './zip-crafting.ts';

const MIB = 1024 * 1024;
const AT_ONCE = 10;
/** The most there is. */
const UPLOAD_BYTES = 256 * MIB;
const PIECE_BYTES = 256 * 1024;
/** Other files share the processors: on a quiet machine every wait is a fifth of its limit or less. */
const PATIENCE = 5;
/** The first request of each kind loads code; this many bring the process to its usual size. */
const WARM_UP = 5;

// One account may take two of three places.
const api = await startApiProcess(t, MINIMAL_INTROSPECTION, { UPLOADS_AT_ONCE: String(2 * AT_ONCE) });
const { id } = (await api.call('POST', '/plugins', { slug: 'large', displayName: 'Large' })).body;
const staged = () => readdir(join(api.dataDir, 'staging'));
const inMegabytes = (bytes: number) => `${Math.round(bytes / MIB)} MB`;

const plain = Object.entries(MINIMAL).map(([name, content]) => ({ name, content }));
/** Sends a zip piece by piece, as fast as it is taken. */
async function upload(semVer: string, zip: Buffer): Promise<{ status: number; detail: string }> {
  const mark = Buffer.from('the zip goes here');
  const { payload, headers } = multipartOf(
    { name: 'semVer', content: semVer },
    { name: 'file', filename: 'p.zip', content: mark },
  );
  const at = payload.indexOf(mark);
  const outgoing = request({
    host: '127.0.0.1',
    port: api.port,
    method: 'POST',
    path: `/api/plugins/${id}/versions/zip`,
    agent: false,
    headers: {
      ...headers,
      authorization: `Bearer ${api.token}`,
      'content-length': payload.length - mark.length + zip.length,
    },
  });
  const answer = Promise.withResolvers<{ status: number; detail: string }>();
  outgoing.on('error', answer.reject);
  outgoing.on('response', async (incoming) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    answer.resolve({ status: incoming.statusCode ?? 0, detail: Buffer.concat(chunks).toString().slice(0, 500) });
  });
  const write = async (piece: Buffer) => {
    if (outgoing.write(piece)) return;
    const taken = once(outgoing, 'drain');
    // A refusal closes the connection, and nothing more is taken.
    await Promise.race([taken, answer.promise]);
    taken.catch(() => undefined);
  };
  await write(payload.subarray(0, at));
  for (let start = 0; start < zip.length; start += PIECE_BYTES) await write(zip.subarray(start, start + PIECE_BYTES));
  outgoing.end(payload.subarray(at + mark.length));
  return answer.promise;
}

/** 42 kB whose directory points 120 times at the same 40 MB of zeros. */
function bomb(): Buffer {
  const zip = craftZip([{ name: 'k000', content: Buffer.alloc(40_000_000) }]);
  const start = zip.readUInt32LE(zip.length - 22 + 16);
  const record = zip.subarray(start, zip.length - 22);
  const records = Array.from({ length: 120 }, (_, index) => {
    const copy = Buffer.from(record);
    copy.write(`k${String(index).padStart(3, '0')}`, 46);
    return copy;
  });
  const end = Buffer.from(zip.subarray(zip.length - 22));
  end.writeUInt16LE(records.length, 8);
  end.writeUInt16LE(records.length, 10);
  end.writeUInt32LE(records.length * record.length, 12);
  return Buffer.concat([zip.subarray(0, start), ...records, end]);
}

t.test('a small zip that would unpack to gigabytes costs next to nothing', async (t) => {
  for (let count = 0; count < WARM_UP; count += 1) {
    t.equal((await upload(`0.0.${count}`, craftZip(plain))).status, 201);
  }
  const zip = bomb();
  t.ok(zip.length > 40_000 && zip.length < 50_000, `${zip.length} bytes`);
  const blobs = await readdir(join(api.dataDir, 'blobs'), { recursive: true });
  const { resident } = api.memory();
  const started = performance.now();
  const refused = await upload('0.1.0', zip);
  const ms = performance.now() - started;
  t.equal(refused.status, 422, refused.detail);
  t.match(refused.detail, /k\d{3}: /, 'it names the entry');
  t.ok(ms < 3_000 * PATIENCE, `${Math.round(ms)} ms`);
  const more = api.memory().peak - resident;
  t.ok(more < 64 * MIB, `${inMegabytes(more)} more`);
  t.same(await staged(), []);
  t.same(await readdir(join(api.dataDir, 'blobs'), { recursive: true }), blobs, 'nothing is kept');
  t.comment(`bomb of ${zip.length} bytes refused in ${Math.round(ms)} ms, peak ${inMegabytes(more)} above before`);
});

soakTest(t, 'ten large uploads at once take little memory, and small requests are answered meanwhile', async (t) => {
  const zip = zipOfSize(UPLOAD_BYTES);
  t.equal(zip.length, UPLOAD_BYTES);
  let uploading = true;
  const waits: number[] = [];
  const small = (async () => {
    while (uploading) {
      const started = performance.now();
      const { status } = await api.call('GET', '/me');
      if (status !== 200) throw new Error(`GET /me answered ${status}`);
      waits.push(performance.now() - started);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  })();
  const started = performance.now();
  const answers = await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => upload(`1.0.${index}`, zip)));
  const seconds = (performance.now() - started) / 1_000;
  uploading = false;
  await small;
  for (const { status, detail } of answers) t.equal(status, 201, status === 201 ? 'published' : detail);
  const { peak } = api.memory();
  t.ok(peak < 400 * MIB, `${inMegabytes(peak)} at most`);
  waits.sort((a, b) => a - b);
  const p95 = waits[Math.floor(waits.length * 0.95)] ?? Number.POSITIVE_INFINITY;
  t.ok(waits.length >= seconds / PATIENCE, `${waits.length} small requests in ${seconds.toFixed(1)} s`);
  t.ok(p95 < 1_000 * PATIENCE, `95 of 100 within ${Math.round(p95)} ms`);
  t.ok((waits.at(-1) ?? 0) < 5_000 * PATIENCE, `the slowest ${Math.round(waits.at(-1) ?? 0)} ms`);
  t.same(await staged(), []);
  t.comment(
    `${AT_ONCE} × ${inMegabytes(zip.length)} in ${seconds.toFixed(1)} s; peak ${inMegabytes(peak)}; ` +
      `${waits.length} small requests, p50 ${Math.round(waits[waits.length >> 1] ?? 0)} ms, p95 ${Math.round(p95)} ms, slowest ${Math.round(waits.at(-1) ?? 0)} ms`,
  );
});

t.test('afterwards the next publish passes', async (t) => {
  const made = await api.call('POST', `/plugins/${id}/versions`, { semVer: '2.0.0', files: fileList(MINIMAL) });
  t.equal(made.status, 201);
});
