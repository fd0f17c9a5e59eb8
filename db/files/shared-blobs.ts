/**
 * Blobs outside of this machine: in rows of the database, or as objects of a bucket. Every process that reaches the database
 * and the bucket has them; copies on the local disk save it the way.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { Pool } from 'pg';
import { KIB, MIB } from '../../sdk/contract/limits.ts';
import { type BlobCache, hashBytes, openBlobCache } from './blob-cache.ts';
import {
  BlobRefusedError,
  BlobStoreUnavailableError,
  BlobTooLargeError,
  createRemovedError,
  IncompleteSweepError,
} from './blob-errors.ts';
import { type Blobs, requireHash } from './blobs.ts';
import { type ObjectStore, toContent } from './s3.ts';
import { type BlobName, openStagingFolder, type StagedFile } from './staging.ts';
import {
  condemnBlobs,
  deleteCondemned,
  findBlobPiece,
  findBlobSize,
  findStoredBlob,
  finishObject,
  insertBlob,
  isBlobStored,
  keepBlobs,
  listUntouched,
  reserveObject,
  touchBlob,
} from './stored-blobs.ts';

/** Blobs stored or removed at once. */
const CONCURRENCY = 8;
/** Bytes of the files that are stored at once, unless one alone has more: they share the line to the bucket. */
const STORED_AT_ONCE_BYTES = 64 * MIB;
/**
 * Size of a blob that is a row: it is in memory twice while it is written. From 256 MiB on, PostgreSQL's client cannot read a row
 * at once, and from 512 MiB on a backup cannot export it.
 */
export const ROW_MAX_BYTES = 128 * MIB;
/** Blobs that a sweep looks at together. */
const BATCH = 5_000;
/** A stream holds one piece of its blob, and its reader chunks of the one before. Copies of smaller blobs are kept on the disk. */
const PIECE_BYTES = MIB;
/** Of a compressed row, as old releases wrote: PostgreSQL decompresses all bytes before a piece, so fewer pieces cost it less. */
const COMPRESSED_PIECE_BYTES = 8 * MIB;
/** Size of the chunks of a stream, so that a slow reader does not hold a whole piece in its buffer. */
const CHUNK_BYTES = 64 * KIB;
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
  /** Limit of a blob that is a row. Default: `ROW_MAX_BYTES`. */
  readonly rowMaxBytes?: number;
}
type Store = Required<SharedBlobsOptions> & { readonly cache: BlobCache; readonly kept: 'rows' | 'objects' };

export async function openSharedBlobs(options: SharedBlobsOptions): Promise<Blobs> {
  const { pool, dataDir, objects } = options;
  const cache = await openBlobCache(join(dataDir, 'blob-cache'), options.cacheBytes);
  const kept = objects === null ? 'rows' : 'objects';
  const store: Store = { rowMaxBytes: ROW_MAX_BYTES, ...options, cache, kept };
  return {
    ...(await openStagingFolder(dataDir, (files) => commit(store, files))),
    async put(bytes) {
      const name = { sha256: hashBytes(bytes), sizeBytes: bytes.byteLength };
      const isStored = (await touchBlob(pool, name.sha256, kept)) && (await isIntact(store, name.sha256));
      if (!isStored) await upload(store, name, bytes);
      return name;
    },
    async keep(names) {
      const distinct = [...new Set(names)];
      if ((await keepBlobs(pool, distinct, kept)) < distinct.length) throw createRemovedError();
    },
    read: (sha256) => readBlob(store, sha256),
    stream: (sha256) => Readable.from(readChunks(store, sha256, AsyncLocalStorage.snapshot()), { objectMode: false }),
    has: async (sha256) => isBlobStored(pool, sha256, kept),
    sweepUnused: (olderThanMs, now, findUsed) => sweepUnused(store, now - olderThanMs, findUsed),
  };
}

async function commit(store: Store, files: readonly StagedFile[]): Promise<void> {
  const distinct = [...new Map(files.map((file) => [file.sha256, file])).values()];
  for (const group of groupFiles(distinct))
    await waitForAll(
      group.map(async (file) => {
        // Those that are stored are not verified: a version repeats most files of the one before, and each would be a request.
        const isStored = await touchBlob(store.pool, file.sha256, store.kept);
        if (!isStored) await upload(store, file, file.stagedAt);
      }),
    );
}

/** Waits for all, also after one has failed: the staged files are removed next. */
async function waitForAll(uploads: readonly Promise<void>[]): Promise<void> {
  const outcomes = await Promise.allSettled(uploads);
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
}

/** Divides files into groups that are stored at once. */
function* groupFiles(files: readonly StagedFile[]): Generator<StagedFile[]> {
  let group: StagedFile[] = [];
  let bytes = 0;
  for (const file of files) {
    const isFull = group.length === CONCURRENCY || bytes + file.sizeBytes > STORED_AT_ONCE_BYTES;
    if (isFull && group.length > 0) {
      yield group;
      group = [];
      bytes = 0;
    }
    group.push(file);
    bytes += file.sizeBytes;
  }
  if (group.length > 0) yield group;
}

/** Reads a stored blob, to find out whether it must be stored again. A store that does not answer proves no damage. */
const isIntact = (store: Store, sha256: string): Promise<boolean> =>
  fetchBlob(store, sha256).then(
    (bytes) => bytes !== null,
    (error: unknown) => error instanceof BlobStoreUnavailableError,
  );

async function forEachOf<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  for (let start = 0; start < items.length; start += CONCURRENCY)
    await Promise.all(items.slice(start, start + CONCURRENCY).map(work));
}

/** @param source the content, or the path of a file that the cache may move away */
async function upload(
  { pool, objects, cache, rowMaxBytes }: Store,
  { sha256, sizeBytes }: BlobName,
  source: Uint8Array | string,
): Promise<void> {
  if (objects === null) {
    if (sizeBytes > rowMaxBytes) throw new BlobTooLargeError(sha256, sizeBytes, rowMaxBytes);
    await insertBlob(pool, sha256, typeof source === 'string' ? await readFile(source) : source);
  } else {
    const content =
      typeof source === 'string' ? { sha256, sizeBytes, open: () => createReadStream(source) } : toContent(source);
    for (let attempt = 1; ; attempt += 1) {
      const key = await reserveObject(pool, sha256, sizeBytes, nameObject(sha256));
      await objects.put(key, content);
      if (await finishObject(pool, sha256, key)) break;
      if (attempt === UPLOADS_MAX)
        throw new BlobStoreUnavailableError(`Blob ${sha256} was removed while it was stored. Retry.`);
    }
  }
  if (typeof source === 'string') await cache.adopt(sha256, source, sizeBytes);
  else await cache.save(sha256, source);
}

const nameObject = (sha256: string): string => `blobs/${sha256.slice(0, 2)}/${sha256.slice(2)}.${randomUUID()}`;

async function readBlob(store: Store, sha256: string): Promise<Buffer> {
  requireHash(sha256);
  const copy = await store.cache.read(sha256);
  if (copy !== null) return copy;
  // Fetched again once: what arrives wrong may lie there right.
  const bytes = (await fetchBlob(store, sha256)) ?? (await fetchBlob(store, sha256));
  if (bytes === null) throw createDamaged(store, sha256);
  await store.cache.save(sha256, bytes);
  return bytes;
}

/** Null: what arrived is not the blob. */
async function fetchBlob(store: Store, sha256: string): Promise<Buffer | null> {
  const { pool, objects, rowMaxBytes } = store;
  const row = await findStoredBlob(pool, sha256, rowMaxBytes);
  if (row === null) throw createMissing(store, sha256);
  const bytes =
    row.content ??
    (row.objectKey === null
      ? await fetchLongRow(store, sha256, row.sizeBytes)
      : await objects?.get(row.objectKey, row.sizeBytes));
  if (!bytes) throw createMissing(store, sha256);
  return hashBytes(bytes) === sha256 ? bytes : null;
}

/** Earlier releases stored longer rows than `ROW_MAX_BYTES`. */
async function fetchLongRow(store: Store, sha256: string, sizeBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let start = 0; start < sizeBytes; start += COMPRESSED_PIECE_BYTES)
    pieces.push(await fetchPiece(store, sha256, start, Math.min(COMPRESSED_PIECE_BYTES, sizeBytes - start)));
  return Buffer.concat(pieces);
}

/** Runs work in the async context in which a stream was opened. */
type InContext = <T>(work: () => T) => T;

async function* readChunks(store: Store, sha256: string, inContext: InContext): AsyncGenerator<Buffer> {
  for await (const piece of readPieces(store, sha256, inContext))
    for (let start = 0; start < piece.byteLength; start += CHUNK_BYTES)
      yield piece.subarray(start, start + CHUNK_BYTES);
}

/** Holds no connection between the pieces: a client may read the next one much later. */
async function* readPieces(store: Store, sha256: string, inContext: InContext): AsyncGenerator<Buffer> {
  requireHash(sha256);
  const copy = await store.cache.read(sha256, PIECE_BYTES);
  if (copy !== null) {
    yield copy;
    return;
  }
  const found = await inContext(() => findBlobSize(store.pool, sha256));
  if (found === null) throw createMissing(store, sha256);
  const { sizeBytes, isCompressed } = found;
  if (sizeBytes <= PIECE_BYTES) {
    yield await inContext(() => readBlob(store, sha256));
    return;
  }
  const pieceBytes = isCompressed ? COMPRESSED_PIECE_BYTES : PIECE_BYTES;
  const hash = createHash('sha256');
  for (let start = 0; start < sizeBytes; start += pieceBytes) {
    const bytes = Math.min(pieceBytes, sizeBytes - start);
    const piece = await inContext(() => fetchPiece(store, sha256, start, bytes));
    hash.update(piece);
    const isLast = start + bytes === sizeBytes;
    // Before the last piece is passed on: a client that has all bytes takes them for the blob.
    if (piece.byteLength !== bytes || (isLast && hash.digest('hex') !== sha256)) throw createDamaged(store, sha256);
    yield piece;
  }
}

/** Finds the row again for each piece: meanwhile, another process may have stored the same bytes elsewhere. */
async function fetchPiece(store: Store, sha256: string, start: number, bytes: number): Promise<Buffer> {
  const row = await findBlobPiece(store.pool, sha256, start, bytes);
  const piece = row?.content ?? (row?.objectKey && (await store.objects?.getPiece(row.objectKey, start, bytes)));
  if (!piece) throw createMissing(store, sha256);
  return piece;
}

const describePlace = ({ objects }: Store): string => objects?.address ?? 'the database';
const createMissing = (store: Store, sha256: string): Error =>
  new Error(`Blob ${sha256} is missing from ${describePlace(store)}. Restore it from a backup.`);
const createDamaged = (store: Store, sha256: string): Error =>
  new Error(
    `Blob ${sha256} is damaged in ${describePlace(store)}: its content has another hash. Restore it from a backup.`,
  );

async function sweepUnused(
  { pool, objects }: Store,
  before: number,
  findUsed: (names: readonly string[]) => Promise<Set<string>>,
): Promise<number> {
  let removed = 0;
  let refusal: BlobRefusedError | null = null;
  for (let after = ''; ; ) {
    const names = await listUntouched(pool, before, after, BATCH);
    const last = names.at(-1);
    if (last === undefined) break;
    after = last;
    const used = await findUsed(names);
    const unused = names.filter((name) => !used.has(name));
    // Includes the blobs that a killed sweep condemned.
    await forEachOf(await condemnBlobs(pool, unused, before), async (blob) => {
      if (blob.objectKey !== null) {
        // A row of a bucket that is no longer used: its object stays.
        if (objects === null) return;
        try {
          await objects.delete(blob.objectKey);
        } catch (error) {
          // One object under a legal hold must not keep all others. A bucket that does not answer ends the sweep.
          if (!(error instanceof BlobRefusedError)) throw error;
          refusal ??= error;
          return;
        }
      }
      const deleted = await deleteCondemned(pool, blob);
      // Not `+= await`: others are counted while this one is deleted.
      removed += deleted;
    });
  }
  if (refusal !== null) throw new IncompleteSweepError(refusal);
  return removed;
}
