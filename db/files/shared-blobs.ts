/**
 * Blobs outside of this machine: in rows of the database, or as objects of a bucket. Every process that reaches the database
 * and the bucket has them; copies on the local disk save it the way.
 */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { Pool } from 'pg';
import { type BlobCache, hashBytes, openBlobCache } from './blob-cache.ts';
import { BlobStoreUnavailableError } from './blob-errors.ts';
import { type Blobs, requireHash } from './blobs.ts';
import type { ObjectStore } from './s3.ts';
import { openStagingFolder, type StagedFile } from './staging.ts';
import {
  condemnBlobs,
  deleteCondemned,
  findStoredBlob,
  finishObject,
  insertBlob,
  isBlobStored,
  listUntouched,
  reserveObject,
  touchBlob,
} from './stored-blobs.ts';

/** Blobs stored or removed at once. */
const CONCURRENCY = 8;
/** Blobs that a sweep looks at together. */
const BATCH = 5_000;
/** Size of the chunks of a stream, so that a slow reader does not hold a whole blob in its buffer. */
const CHUNK_BYTES = 64 * 1024;
/** Sweeps and uploads that meet are rare, so a third one is a fault. */
const UPLOADS_MAX = 3;

interface SharedBlobsOptions {
  readonly pool: Pool;
  /** Null: blobs are rows. */
  readonly objects: ObjectStore | null;
  /** `DATA_DIR`, for copies and staged files. */
  readonly dataDir: string;
  /** Limit of the copies. */
  readonly cacheBytes: number;
}
type Store = SharedBlobsOptions & { readonly cache: BlobCache; readonly kept: 'rows' | 'objects' };

export async function openSharedBlobs(options: SharedBlobsOptions): Promise<Blobs> {
  const { pool, dataDir, objects } = options;
  const cache = await openBlobCache(join(dataDir, 'blob-cache'), options.cacheBytes);
  const kept = objects === null ? 'rows' : 'objects';
  const store: Store = { ...options, cache, kept };
  return {
    ...(await openStagingFolder(dataDir, (files) => commit(store, files))),
    async put(bytes) {
      const name = { sha256: hashBytes(bytes), sizeBytes: bytes.byteLength };
      await keepBlob(store, name.sha256, () => bytes);
      return name;
    },
    read: (sha256) => readBlob(store, sha256),
    stream: (sha256) => Readable.from(readChunks(store, sha256), { objectMode: false }),
    has: async (sha256) => isBlobStored(pool, sha256, kept),
    sweepUnused: (olderThanMs, now, findUsed) => sweepUnused(store, now - olderThanMs, findUsed),
  };
}

async function commit(store: Store, files: readonly StagedFile[]): Promise<void> {
  const distinct = [...new Map(files.map((file) => [file.sha256, file])).values()];
  await forEachOf(distinct, ({ sha256, stagedAt }) => keepBlob(store, sha256, () => readFile(stagedAt)));
}

/** Stores a blob, or makes one that is stored already safe from the next sweep. */
async function keepBlob(
  store: Store,
  sha256: string,
  readBytes: () => Uint8Array | Promise<Uint8Array>,
): Promise<void> {
  if (!(await touchBlob(store.pool, sha256, store.kept))) await upload(store, sha256, await readBytes());
}

async function forEachOf<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  for (let start = 0; start < items.length; start += CONCURRENCY)
    await Promise.all(items.slice(start, start + CONCURRENCY).map(work));
}

async function upload({ pool, objects, cache }: Store, sha256: string, bytes: Uint8Array): Promise<void> {
  if (objects === null) await insertBlob(pool, sha256, bytes);
  else {
    for (let attempt = 1; ; attempt += 1) {
      const key = await reserveObject(pool, sha256, bytes.byteLength, nameObject(sha256));
      await objects.put(key, bytes);
      if (await finishObject(pool, sha256, key)) break;
      if (attempt === UPLOADS_MAX)
        throw new BlobStoreUnavailableError(`Blob ${sha256} was removed while it was stored. Retry.`);
    }
  }
  await cache.save(sha256, bytes);
}

const nameObject = (sha256: string): string => `blobs/${sha256.slice(0, 2)}/${sha256.slice(2)}.${randomUUID()}`;

async function readBlob(store: Store, sha256: string): Promise<Buffer> {
  requireHash(sha256);
  const copy = await store.cache.read(sha256);
  if (copy !== null) return copy;
  // Fetched again once: what arrives wrong may lie there right.
  const bytes = (await fetchBlob(store, sha256)) ?? (await fetchBlob(store, sha256));
  if (bytes === null)
    throw new Error(
      `Blob ${sha256} is damaged in ${store.objects?.address ?? 'the database'}: its content has another hash. Restore it from a backup.`,
    );
  await store.cache.save(sha256, bytes);
  return bytes;
}

/** Null: what arrived is not the blob. */
async function fetchBlob({ pool, objects }: Store, sha256: string): Promise<Buffer | null> {
  const row = await findStoredBlob(pool, sha256);
  const bytes = row?.content ?? (row?.objectKey && (await objects?.get(row.objectKey, row.sizeBytes)));
  if (!bytes)
    throw new Error(`Blob ${sha256} is missing from ${objects?.address ?? 'the database'}. Restore it from a backup.`);
  return hashBytes(bytes) === sha256 ? bytes : null;
}

async function* readChunks(store: Store, sha256: string): AsyncGenerator<Buffer> {
  const bytes = await readBlob(store, sha256);
  for (let start = 0; start < bytes.byteLength; start += CHUNK_BYTES) yield bytes.subarray(start, start + CHUNK_BYTES);
}

async function sweepUnused(
  { pool, objects }: Store,
  before: number,
  findUsed: (names: readonly string[]) => Promise<Set<string>>,
): Promise<number> {
  let removed = 0;
  for (let after = ''; ; ) {
    const names = await listUntouched(pool, before, after, BATCH);
    const last = names.at(-1);
    if (last === undefined) return removed;
    after = last;
    const used = await findUsed(names);
    const unused = names.filter((name) => !used.has(name));
    // Includes the blobs that a killed sweep condemned.
    await forEachOf(await condemnBlobs(pool, unused, before), async (blob) => {
      if (blob.objectKey !== null) {
        // A row of a bucket that is no longer used: its object stays.
        if (objects === null) return;
        await objects.delete(blob.objectKey);
      }
      const deleted = await deleteCondemned(pool, blob);
      // Not `+= await`: others are counted while this one is deleted.
      removed += deleted;
    });
  }
}
