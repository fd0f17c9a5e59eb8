/** Zip uploads never fill the disk of DATA_DIR: their temporary files are reserved before they are written. */
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { readPackage } from '../../../api/package/reader.ts';
import { StagingSpace } from '../../../api/package/staging-space.ts';
import { saveUsageLimits } from '../../../db/accounts/usage.ts';
import { openBlobs } from '../../../db/files/blobs.ts';
import { KIB, MIB } from '../../../sdk/contract/limits.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { startApiFixture } from '../api-fixture.ts';
import { introspectsMinimal, MINIMAL, README, upload, zipOf } from './packages.ts';

const refusal = (status: number, code: string, detail: RegExp) => ({ status, code, message: detail, retryAfter: 5 });

t.test('an account has a share of the free space, and the rest is left to others', async (t) => {
  const disk = { freeBytes: 10 * MIB, totalBytes: 100 * MIB };
  const space = new StagingSpace({ minFreeMegabytes: 1, readFree: async () => disk });
  const [first, second, other] = [space.open('ann'), space.open('ann'), space.open('ben')];
  await t.rejects(first.reserve('', 7 * MIB), refusal(503, 'unavailable', /too little disk space for the 7 MiB/));
  await first.reserve('', 5 * MIB);
  await t.rejects(
    second.reserve('', 2 * MIB),
    refusal(429, 'rate_limited', /take 5 MiB .* 2 MiB more exceed its share/),
  );
  await other.reserve('', 2 * MIB);
  const third = space.open('cleo');
  await t.rejects(third.reserve('', 2 * MIB), refusal(503, 'unavailable', /for the 2 MiB of temporary files/));
  first[Symbol.dispose]();
  await second.reserve('', 4 * MIB);
  disk.freeBytes = MIB;
  await t.rejects(third.reserve('', 1), refusal(503, 'unavailable', /for the 1 MiB/));
});

t.test('an upload alone on the disk is not refused for its own zip', async (t) => {
  const disk = { freeBytes: 1_024 * MIB, totalBytes: 2_048 * MIB };
  const space = new StagingSpace({ minFreeMegabytes: 64, readFree: async () => disk });
  const upload = space.open('ann');
  await upload.reserve('', 256 * MIB);
  // It is written by now.
  disk.freeBytes -= 256 * MIB;
  await t.resolves(upload.reserve('', 256 * MIB));
});

t.test('the unpacked size is reserved before anything is unpacked', async (t) => {
  const folder = await temporaryFolder(t);
  await using staging = await (await openBlobs(folder)).stage();
  const path = staging.scratch();
  const files = { ...MINIMAL, '.DS_Store': 'x'.repeat(KIB), 'assets/blank.txt': ' '.repeat(50 * KIB) };
  await writeFile(path, await zipOf(files));
  const kept = Buffer.byteLength(`${Object.values(MINIMAL).join('')}`) + 50 * KIB;
  const listStaged = () => readdir(join(path, '..'));
  const reserve = async (bytes: number) => {
    t.equal(bytes, kept, 'without system files');
    t.equal((await listStaged()).length, 1, 'the zip');
    throw new Error('no room');
  };
  await t.rejects(readPackage({ kind: 'zip', path, reserve }, staging, 'ann'), { message: 'no room' });
  t.equal((await listStaged()).length, 1);
});

async function startAuthor(minFreeMegabytes = 0) {
  const api = await startApiFixture(t, { introspect: introspectsMinimal, limits: { minFreeMegabytes } });
  const ann = await api.user('ann');
  const { id } = (await ann.post('/plugins', { slug: 'a', displayName: 'A' })).body;
  const send = (zip: Buffer) =>
    ann.send({ method: 'POST', url: `/api/plugins/${id}/versions/zip`, ...upload(zip, '1.0.0') });
  return { api, send, staged: () => readdir(join(api.dataDir, 'staging')) };
}

t.test('an upload that would take the last space of the disk is refused before it is received', async (t) => {
  const { send, staged } = await startAuthor(1_000_000_000);
  const { status, body, headers } = await send(await zipOf(MINIMAL));
  t.match({ status, body }, { status: 503, body: { code: 'unavailable', detail: /disk space/ } });
  t.ok(Number(headers['retry-after']) > 0);
  t.same(await staged(), []);
});

t.test('a package over the quota of files is refused before it is unpacked and built', async (t) => {
  const { api, send, staged } = await startAuthor();
  await saveUsageLimits(api.pool, { blobs: KIB });
  // Without index.ts it could not be built.
  const { status, body } = await send(await zipOf({ 'readme.md': README, 'assets/blank.txt': ' '.repeat(2 * KIB) }));
  t.match({ status, body }, { status: 413, body: { code: 'quota_exceeded', errors: [{ field: 'blobs' }] } });
  t.same(await staged(), []);
});
