/** Lists of a version's files: pages of bounded size, a bounded number at once, and nothing is read for a HEAD request. */
import t from 'tap';
import { MIB } from '../../../sdk/contract/limits.ts';
import { type Client, startApiFixture } from '../api-fixture.ts';
import { fileList, introspectsMinimal, MINIMAL } from '../package/packages.ts';

/** The costliest text: each byte is six of JSON. */
const CONTROL = '\x01';
const PAGE_MAX_BYTES = 2 * MIB;
const REQUESTS = 60;

/** Blobs that were read. */
const read: string[] = [];
/** Where set, reads of this blob wait until it resolves. */
let held: { sha256: string; released: Promise<void> } | undefined;
let onRead: () => void = () => undefined;
const api = await startApiFixture(t, {
  introspect: introspectsMinimal,
  prepare: (services) => ({
    ...services,
    blobs: {
      ...services.blobs,
      read: async (sha256) => {
        read.push(sha256);
        onRead();
        if (sha256 === held?.sha256) await held.released;
        return services.blobs.read(sha256);
      },
    },
  }),
});
const [ann, ben] = [await api.user('ann'), await api.user('ben')];

/** Publishes a version and adds files that have the same content. */
async function publish(client: Client, slug: string, files: number, content: string) {
  const { id } = (await client.post('/plugins', { slug, displayName: slug })).body;
  const made = await client.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
  const { sha256 } = await api.services.blobs.put(Buffer.from(content));
  await api.pool.query(
    `INSERT INTO version_files (version_id, path, sha256, size_bytes)
     SELECT $1, 'assets/' || lpad(n::text, 6, '0'), $2, $3 FROM generate_series(1, $4) n`,
    [made.body.id, sha256, Buffer.byteLength(content), files],
  );
  return { sha256, plugin: `/plugins/${id}`, list: `/plugins/${id}/versions/${made.body.id}/files` };
}

interface File {
  readonly path: string;
  readonly contentText: string | null;
}
/** Follows the cursors. @returns the pages */
async function readPages(path: string): Promise<File[][]> {
  const pages: File[][] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { status, body } = await ann.get(cursor === '' ? path : `${path}?cursor=${cursor}`);
    t.equal(status, 200);
    t.ok(JSON.stringify(body).length <= PAGE_MAX_BYTES, 'a page is bounded');
    pages.push(body.items);
    cursor = body.nextCursor;
  }
  return pages;
}

t.test('files that are too long as JSON are listed without their text', async (t) => {
  const { list, plugin } = await publish(ann, 'long', 16, CONTROL.repeat(MIB));
  const files = (await readPages(list)).flat();
  t.equal(files.length, 18);
  t.same(
    files.filter(({ contentText }) => contentText !== null).map(({ path }) => path),
    Object.keys(MINIMAL).sort(),
  );
  const { body } = await ann.get(`${plugin}?includeFiles=true`);
  t.ok(JSON.stringify(body).length <= PAGE_MAX_BYTES);
  t.equal(body.hasMoreFiles, true);
});

t.test('pages together have the text of every file once', async (t) => {
  const text = CONTROL.repeat(MIB / 8);
  const { list } = await publish(ann, 'dense', 16, text);
  const pages = await readPages(list);
  t.ok(pages.length > 1);
  const files = pages.flat().filter(({ path }) => path.startsWith('assets/'));
  t.equal(new Set(files.map(({ path }) => path)).size, 16);
  t.equal(files.length, 16);
  t.ok(files.every(({ contentText }) => contentText === text));
});

t.test('a page of empty files is bounded as well', async (t) => {
  const { list, plugin } = await publish(ann, 'many', 2_500, '');
  t.equal((await ann.get(`${plugin}?includeFiles=true`)).body.files.length, 1_000);
  t.same(
    (await readPages(list)).map(({ length }) => length),
    [1_000, 1_000, 502],
  );
  t.match(await ann.get(`${list}?cursor=nope`), { status: 400, body: { errors: [{ field: 'cursor' }] } });
});

t.test('a HEAD request reads nothing', async (t) => {
  const { list, plugin } = await publish(ann, 'head', 1, 'text');
  read.length = 0;
  const headers = { authorization: `Bearer ${ann.token}` };
  for (const path of [list, `${plugin}?includeFiles=true`, list.replace(/files$/, 'archive')]) {
    const { statusCode } = await api.app.inject({ method: 'HEAD', url: `/api${path}`, headers });
    t.equal(statusCode, 405, path);
  }
  t.same(read, []);
});

t.test('an account reads a bounded number of large pages at once, and others read theirs', async (t) => {
  const large = await publish(ann, 'at-once', 4, CONTROL.repeat(MIB / 4));
  const small = await publish(ben, 'beside', 1, 'text');
  const released = Promise.withResolvers<void>();
  held = { sha256: large.sha256, released: released.promise };
  read.length = 0;
  const allDecided = Promise.withResolvers<void>();
  const refused: number[] = [];
  const inside = () => read.filter((sha256) => sha256 === large.sha256).length;
  const check = () => {
    if (inside() + refused.length === REQUESTS) allDecided.resolve();
  };
  onRead = check;
  const answers = Array.from({ length: REQUESTS }, async () => {
    const { status } = await ann.get(large.list);
    if (status === 200) return status;
    refused.push(status);
    check();
    return status;
  });
  await allDecided.promise;
  t.equal(inside(), 4);
  t.ok(refused.every((status) => status === 429));
  t.equal((await ben.get(small.list)).status, 200);
  onRead = () => undefined;
  released.resolve();
  t.equal((await Promise.all(answers)).filter((status) => status === 200).length, 4);
  held = undefined;
  t.equal((await ann.get(large.list)).status, 200, 'an answer that was sent frees its share');
});
