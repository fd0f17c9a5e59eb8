/** Files of packages stay on disk as long as a version names them, and the sweep then removes them. */
import { mkdir, readdir, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { mock } from 'node:test';
import t from 'tap';
import { UPLOAD_BOUNDS } from '../../../api/package/upload.ts';
import { AFTER_DELETE_MS, PAUSE_MS, startBlobSweeper } from '../../../api/plugins/blob-sweeper.ts';
import { findUsedBlobs } from '../../../db/catalog/versions.ts';
import { IncompleteSweepError } from '../../../db/files/blob-errors.ts';
import { SECOND } from '../../../sdk/contract/limits.ts';
import { amount, soakTest } from '../../runner/soak.ts';
import { type ApiFixture, startApiFixture } from '../api-fixture.ts';
import { type Files, fileList, introspectsMinimal as introspect, MINIMAL } from '../package/packages.ts';

const MINUTE = 60_000;
/** Rounds of publishes during sweeps, eight publishes at once in each. */
const ROUNDS = amount({ quick: 1, soak: 10 });

async function namesOnDisk({ dataDir }: ApiFixture): Promise<string[]> {
  const found: string[] = [];
  for (const prefix of await readdir(join(dataDir, 'blobs'))) {
    for (const rest of await readdir(join(dataDir, 'blobs', prefix))) found.push(`${prefix}${rest}`);
  }
  return found;
}
/** Makes all blobs look older than the grace period. */
async function age(api: ApiFixture): Promise<void> {
  for (const name of await namesOnDisk(api)) {
    await utimes(join(api.dataDir, 'blobs', name.slice(0, 2), name.slice(2)), new Date(0), new Date(0));
  }
}
const body = (semVer: string, more: Files = {}) => ({ semVer, files: fileList({ ...MINIMAL, ...more }) });
const onError = (error: Error) => {
  throw error;
};

const api = await startApiFixture(t, { introspect });

t.test('the sweep removes only the blobs of a deleted plugin and a replaced draft', async (t) => {
  const ann = await api.user('ann');
  const kept = (await ann.post('/plugins', { slug: 'kept', displayName: 'A' })).body;
  const gone = (await ann.post('/plugins', { slug: 'gone', displayName: 'B' })).body;
  const version = (await ann.post(`/plugins/${kept.id}/versions`, body('1.0.0', { 'assets/a.txt': 'a' }))).body;
  await ann.post(`/plugins/${kept.id}/draft`, { files: fileList({ ...MINIMAL, 'assets/old.txt': 'old' }) });
  await ann.post(`/plugins/${kept.id}/draft`, { files: fileList({ ...MINIMAL, 'assets/new.txt': 'new' }) });
  await ann.post(`/plugins/${gone.id}/draft`, { files: fileList({ ...MINIMAL, 'assets/gone.txt': 'gone' }) });
  t.equal((await ann.delete(`/plugins/${gone.id}`)).status, 204);
  const upkeep = startBlobSweeper({ pool: api.pool, blobs: api.services.blobs, onError });
  t.equal(await upkeep.sweep(), 0, 'a sweep removes nothing younger than the grace period');
  await age(api);
  const before = await namesOnDisk(api);
  const used = await findUsedBlobs(api.pool, before);
  t.equal(before.length - used.size, 2, 'the old draft’s file and the deleted plugin’s');
  t.equal(await upkeep.sweep(), 2);
  t.same((await namesOnDisk(api)).toSorted(), [...used].toSorted());
  const files = (await ann.get(`/plugins/${kept.id}/versions/${version.id}/files`)).body.items;
  t.equal(files.find((file: { path: string }) => file.path === 'assets/a.txt').contentText, 'a');
  t.ok(used.has(version.bundleSha256));
  await upkeep.close();
});

t.test('the first sweep also removes unused words of the catalog', async (t) => {
  await api.pool.query(`INSERT INTO catalog_words VALUES ('unused')`);
  const upkeep = startBlobSweeper({ pool: api.pool, blobs: api.services.blobs, onError });
  await upkeep.sweep();
  t.same((await api.pool.query('SELECT word FROM catalog_words')).rows, []);
  await upkeep.close();
});

await soakTest(t, 'a sweep does not remove blobs that a concurrent publish reuses', async (t) => {
  const api = await startApiFixture(t, { introspect, bundler: { threads: 1, queue: 100 } });
  const ann = await api.user('ann');
  const upkeep = startBlobSweeper({ pool: api.pool, blobs: api.services.blobs, onError }, MINUTE);
  for (let round = 0; round < ROUNDS; round += 1) {
    // Left by a plugin that is gone.
    const texts = Array.from({ length: 8 }, (_, index) => `round ${round} text ${index}`);
    for (const text of texts) await api.services.blobs.put(Buffer.from(text));
    await age(api);
    const { id } = (await ann.post('/plugins', { slug: `p${round}`, displayName: 'P' })).body;
    let publishing = true;
    const sweeps = (async () => {
      while (publishing) await upkeep.sweep();
    })();
    const publish = (text: string, index: number) =>
      ann.post(`/plugins/${id}/versions`, body(`1.0.${index}`, { 'assets/a.txt': text }));
    const answers = await Promise.all(texts.map(publish));
    publishing = false;
    await sweeps;
    for (const [index, { status, body: made }] of answers.entries()) {
      t.equal(status, 201);
      const { items } = (await ann.get(`/plugins/${id}/versions/${made.id}/files`)).body;
      const asset = items.find((file: { path: string }) => file.path === 'assets/a.txt');
      t.equal(asset.contentText, texts[index]);
      t.ok(await api.services.blobs.has(made.bundleSha256), 'its bundle is there');
    }
  }
  await upkeep.close();
});

t.test('the sweep removes the files of killed publishes, and none of a slow upload', async (t) => {
  const root = join(api.dataDir, 'staging');
  const { maxBytes, leastBytesPerSecond, withinMs } = UPLOAD_BOUNDS;
  const slowestMs = withinMs + (maxBytes / leastBytesPerSecond) * SECOND;
  for (const [name, began] of [
    ['killed', 0],
    ['slow', Date.now() - slowestMs],
  ] as const) {
    await mkdir(join(root, name));
    await utimes(join(root, name), new Date(began), new Date(began));
  }
  const upkeep = startBlobSweeper({ pool: api.pool, blobs: api.services.blobs, onError });
  await upkeep.sweep();
  t.same(await readdir(root), ['slow']);
  await upkeep.close();
});

await soakTest(
  t,
  'a sweep that the store refuses to complete gives back the counted bytes of past hours, too',
  async (t) => {
    await api.pool.query(`INSERT INTO accounts (id, name) VALUES ('late', 'late')`);
    await api.pool.query(
      `INSERT INTO account_usage (account_id, kind, period, bytes)
     SELECT 'late', 'blobs', date_trunc('hour', now(), 'UTC') - hours * interval '1 hour', 1000 FROM unnest('{0,5}'::int[]) hours`,
    );
    const blobs = {
      ...api.services.blobs,
      sweepUnused: () => Promise.reject(new IncompleteSweepError(new Error('status 403, AccessDenied'))),
    };
    const upkeep = startBlobSweeper({ pool: api.pool, blobs, onError });
    await t.rejects(upkeep.sweep(), /AccessDenied/);
    const usage = await api.pool.query(`SELECT bytes FROM account_usage WHERE account_id = 'late' AND kind = 'blobs'`);
    t.same(usage.rows, [{ bytes: '1000' }], 'those of this hour count');
    await upkeep.close();
  },
);

t.test('deletions cause no sweep within minutes after the last one', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  t.teardown(() => mock.timers.reset());
  let now = 0;
  let sweeps = 0;
  // The first step of a sweep. It fails, so that the others do not follow.
  const sweepStaging = () => {
    sweeps += 1;
    return Promise.reject(new Error('no sweep here'));
  };
  const pool = {} as ApiFixture['pool'];
  const blobs = { sweepStaging } as unknown as ApiFixture['services']['blobs'];
  const upkeep = startBlobSweeper({ pool, blobs, onError: () => undefined, now: () => now });
  const pass = async (ms: number) => {
    now += ms;
    mock.timers.tick(ms);
    await new Promise((resolve) => setImmediate(resolve));
  };
  upkeep.request();
  await pass(AFTER_DELETE_MS);
  t.equal(sweeps, 1);
  for (let passedMs = 0; passedMs + AFTER_DELETE_MS < PAUSE_MS; passedMs += AFTER_DELETE_MS) {
    upkeep.request();
    await pass(AFTER_DELETE_MS);
  }
  t.equal(sweeps, 1, 'none during the pause');
  await pass(AFTER_DELETE_MS);
  t.equal(sweeps, 2);
  upkeep.request();
  await pass(PAUSE_MS - AFTER_DELETE_MS);
  await t.rejects(upkeep.sweep(), /no sweep here/);
  t.equal(sweeps, 3, 'the hourly sweep does not wait');
  await pass(PAUSE_MS - AFTER_DELETE_MS);
  t.equal(sweeps, 3, 'the pause counts from its end');
  await pass(AFTER_DELETE_MS);
  t.equal(sweeps, 4);
  await upkeep.close();
});

t.test('only one process sweeps at a time', async (t) => {
  const other = await api.pool.connect();
  await other.query(`SELECT pg_advisory_lock(hashtext('bulkhead blob sweep'))`);
  const upkeep = startBlobSweeper({ pool: api.pool, blobs: api.services.blobs, onError });
  t.equal(await upkeep.sweep(), null);
  other.release(true);
  let removed = await upkeep.sweep();
  // The server frees the lock a moment after the connection is gone.
  while (removed === null) removed = await upkeep.sweep();
  t.equal(removed, 0);
  await upkeep.close();
});
