/** Lists of a version's files: pages of bounded size, a bounded number at once, and nothing is read for a HEAD request. */
import t from 'tap';
import { requireFiles } from '../../../api/plugins/version-files.ts';
import { KIB, MIB } from '../../../sdk/contract/limits.ts';
import { soakTest } from '../../runner/soak.ts';
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
async function readPages(path: string, limit = 1_000): Promise<File[][]> {
  const pages: File[][] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { status, body } = await ann.get(`${path}?limit=${limit}&cursor=${cursor}`);
    t.equal(status, 200);
    t.ok(JSON.stringify(body).length <= PAGE_MAX_BYTES, 'a page is bounded');
    pages.push(body.items);
    cursor = body.nextCursor ?? null;
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

await soakTest(t, 'a page of empty files is bounded as well', async (t) => {
  const { list, plugin } = await publish(ann, 'many', 2_500, '');
  t.equal((await ann.get(`${plugin}?includeFiles=true`)).body.files.length, 1_000);
  t.same(
    (await readPages(list)).map(({ length }) => length),
    [1_000, 1_000, 502],
  );
  t.equal((await ann.get(list)).body.items.length, 1_000);
  t.equal((await ann.get(`${list}?limit=100`)).body.items.length, 100);
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

await soakTest(t, 'a path of the maximum length fits into a cursor', async (t) => {
  const { list, sha256 } = await publish(ann, 'deep', 0, '');
  const folder = `${'é'.repeat(127)}/`.repeat(4);
  const paths = ['a', 'b'].map((end) => folder + end.repeat(1_024 - Buffer.byteLength(folder)));
  await api.pool.query(
    `INSERT INTO version_files (version_id, path, sha256, size_bytes)
     SELECT split_part($1, '/', 5), path, $2, 0 FROM unnest($3::text[]) AS path`,
    [list, sha256, paths],
  );
  t.same(
    (await readPages(list, 1)).flat().map(({ path }) => path),
    [...Object.keys(MINIMAL).sort(), ...paths],
  );
});

t.test('a draft that is saved between two pages is read again from its start', async (t) => {
  const { id } = (await ann.post('/plugins', { slug: 'saved', displayName: 'saved' })).body;
  const save = async (...paths: string[]) => {
    const texts = Object.fromEntries(paths.map((path) => [`assets/${path}`, path]));
    t.equal((await ann.post(`/plugins/${id}/draft`, { files: fileList({ ...MINIMAL, ...texts }) })).status, 200);
  };
  await save('a.txt', 'b.txt', 'c.txt');
  const list = `/plugins/${id}/versions/draft/files`;
  const first = (await ann.get(`${list}?limit=1`)).body;
  t.equal(first.items[0].path, 'assets/a.txt');
  t.equal((await ann.get(`${list}?limit=1&cursor=${first.nextCursor}`)).body.items[0].path, 'assets/b.txt');
  await save('b.txt', 'c.txt');
  t.match(await ann.get(`${list}?limit=1&cursor=${first.nextCursor}`), {
    status: 400,
    body: { detail: /^The draft was saved meanwhile/, errors: [{ field: 'cursor' }] },
  });
  const { list: other } = await publish(ann, 'other', 0, '');
  t.match(await ann.get(`${other}?cursor=${first.nextCursor}`), {
    status: 400,
    body: { errors: [{ field: 'cursor' }] },
  });
});

await soakTest(t, 'a draft that is saved while its files are listed for an archive is gone', async (t) => {
  const replaced = { id: 'none', semVer: null };
  await t.rejects(requireFiles(api.pool, replaced), { code: 'gone', message: /^The draft was saved meanwhile/ });
});

t.test('a version whose files are removed between two pages is gone', async (t) => {
  const { list } = await publish(ann, 'released', 3, 'text');
  const { nextCursor } = (await ann.get(`${list}?limit=1`)).body;
  await api.pool.query(`DELETE FROM version_files WHERE version_id = split_part($1, '/', 5)`, [list]);
  t.equal((await ann.get(`${list}?limit=1&cursor=${nextCursor}`)).status, 410);
});

/** Sends requests that hold the blob until each of them reads it or is refused. @returns their statuses, and how many read it */
async function readAtOnce({ list, sha256 }: { list: string; sha256: string }, requests: number) {
  const released = Promise.withResolvers<void>();
  held = { sha256, released: released.promise };
  read.length = 0;
  const allDecided = Promise.withResolvers<void>();
  let refused = 0;
  const check = () => {
    if (read.filter((blob) => blob === sha256).length + refused === requests) allDecided.resolve();
  };
  onRead = check;
  const answers = Array.from({ length: requests }, async () => {
    const { status } = await ann.get(list);
    if (status !== 200) refused += 1;
    check();
    return status;
  });
  await allDecided.promise;
  const reading = requests - refused;
  t.equal((await ben.get(besides)).status, 200, 'others read theirs');
  onRead = () => undefined;
  released.resolve();
  const statuses = await Promise.all(answers);
  held = undefined;
  return { statuses, reading };
}
const { list: besides } = await publish(ben, 'beside', 1, 'text');

t.test('an account reads a bounded number of large pages at once, and others read theirs', async (t) => {
  const large = await publish(ann, 'at-once', 4, CONTROL.repeat(MIB / 4));
  const { statuses, reading } = await readAtOnce(large, REQUESTS);
  t.ok(reading < 8, `${reading} pages of at least 1 MiB`);
  t.ok(statuses.every((status) => status === 200 || status === 429));
  const complete = statuses.filter((status) => status === 200).length;
  t.ok(complete >= 1 && complete <= 5, `${complete} pages of 1.5 MiB`);
  t.equal((await ann.get(large.list)).status, 200, 'an answer that was sent frees its share');
});

await soakTest(t, 'ordinary text takes up its own size', async (t) => {
  const ordinary = await publish(ann, 'ordinary', 1, 'A line of text.\n'.repeat((350 * KIB) / 16));
  t.same((await readAtOnce(ordinary, 20)).statuses, Array(20).fill(200));
});
