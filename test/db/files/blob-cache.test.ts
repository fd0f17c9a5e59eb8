/** Copies of blobs are an aid only: where the folder cannot be kept in order, blobs are stored and read all the same. */
import { mkdir, readdir, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { hashBytes, openBlobCache } from '../../../db/files/blob-cache.ts';
import { temporaryFolder } from '../../runner/harness.ts';

/** For 16 copies. Each makes the cache look through its folder. */
const MAX_BYTES = 16_384;
const createCopy = (index: number): Buffer => Buffer.alloc(1_024, index);

t.test(
  'what cannot be removed from the folder keeps neither a copy from being saved nor old ones from going',
  async (t) => {
    const folder = await temporaryFolder(t);
    const foreign = join(folder, 'ab', 'a folder');
    await mkdir(foreign, { recursive: true });
    await utimes(foreign, new Date(0), new Date(0));
    const cache = await openBlobCache(folder, MAX_BYTES);
    for (let index = 0; index < 100; index += 1) {
      const copy = createCopy(index);
      await cache.save(hashBytes(copy), copy);
      t.same(await cache.read(hashBytes(copy)), copy);
    }
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const copies = entries.filter((entry) => entry.isFile());
    t.ok(copies.length * 1_024 <= MAX_BYTES, `${copies.length} of 100 copies are left`);
  },
);
