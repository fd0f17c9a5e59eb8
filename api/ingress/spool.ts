/**
 * Stores webhook requests on disk while the database is unavailable: appends them in order, with fsync, and reads them back
 * in the same order. Each process locks a folder of its own and takes over the folders of processes that are gone: when it
 * starts, and while it runs, because a process may end after its successor has started. Locks, because process ids are not
 * unique across containers.
 */
import { existsSync } from 'node:fs';
import { type FileHandle, readdir, readFile, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { NewDelivery } from '../../db/channels/deliveries.ts';
import { type DataDirLock, syncPath, tryLock } from '../../db/files/data-dir.ts';
import { mayTakeBytes } from '../../db/jobs/account-share.ts';
import { orderedId } from '../../db/postgres/ordered-id.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { KeyedLocks } from '../../db/timing/keyed-locks.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { makeFolder } from '../../sdk/files/make-folder.ts';
import { UnrepeatedError } from '../../service/telemetry/error-log.ts';
import { createFile } from './created-file.ts';
import { decodeRecords, encodeRecord, hasCompleteRecord } from './spool-segment.ts';

/** A full segment is closed. Limits memory, because a segment is read as a whole. Bytes. */
const SEGMENT_BYTES = 16 * MIB;
/** File that the owner of a folder locks. */
const LOCK = 'lock';
const SEE_RUNBOOK = 'See BulkheadWebhooksKept in docs/runbook.md.';
const ATTEMPTS_MAX = 5;
/**
 * A segment that failed this often to be read is set aside. The intake tries twice a second, so a disk or a network file system has
 * 10 s to recover; all requests are stored on the disk meanwhile.
 */
export const READ_ATTEMPTS_MAX = 20;
/** A read that fails with these says nothing about the file. */
const EXHAUSTED: readonly string[] = ['EMFILE', 'ENFILE', 'ENOMEM'];
/** A running process takes over files up to this share of its bound, because new requests need room as well. */
const ADOPTED_SHARE = 0.5;

interface Segment {
  readonly path: string;
  /** Without a record that is being written. Its vendors have no answer yet. */
  bytes: number;
  /** This process wrote the file. */
  readonly isOwn: boolean;
  /** Bytes of each account, without those that another process wrote. */
  readonly accountBytes: Map<string, number>;
}
interface Reading {
  readonly segment: Segment;
  content: Buffer;
  /** Bytes of the segment when it was read. */
  readBytes: number;
  at: number;
  isDamaged: boolean;
  /** Error code of the file system. Null: the segment was read. */
  readFault: string | null;
}
/** The oldest requests. Call `remove` when they are stored elsewhere. */
interface SpooledBatch {
  readonly deliveries: readonly NewDelivery[];
  remove(): Promise<void>;
}

export class Spool {
  readonly #folder: string;
  readonly #lock: DataDirLock;
  readonly #maxBytes: number;
  readonly #onError: (error: Error) => void;
  /** Oldest first; the last one may be open for writing. */
  readonly #segments: Segment[] = [];
  #writing: { readonly file: FileHandle; readonly segment: Segment } | null = null;
  #bytes = 0;
  readonly #accountBytes = new AmountsByKey();
  /** The content of the oldest segment and the read position. */
  #reading: Reading | null = null;
  /** Attempts to read the oldest segment that failed, one after the other. */
  #failedReads = 0;
  /** Serializes writes to segments and their removal. */
  readonly #operations = new KeyedLocks();

  private constructor(options: { folder: string; lock: DataDirLock; maxBytes: number; onError(error: Error): void }) {
    this.#folder = options.folder;
    this.#lock = options.lock;
    this.#maxBytes = options.maxBytes;
    this.#onError = options.onError;
  }

  /**
   * Opens a spool with a new folder in `directory`, and adopts the requests of processes that are gone.
   *
   * @param maxBytes the spool is full from this size on
   */
  static async open(directory: string, maxBytes: number, onError: (error: Error) => void): Promise<Spool> {
    const { folder, lock } = await createFolder(directory);
    const spool = new Spool({ folder, lock, maxBytes, onError });
    // All of them, so that processes that start and end one after the other keep no more than one bound together.
    await spool.#adopt(Number.POSITIVE_INFINITY);
    return spool;
  }

  get isEmpty(): boolean {
    return this.#segments.length === 0;
  }
  get bytes(): number {
    return this.#bytes;
  }
  get isFull(): boolean {
    return this.#bytes >= this.#maxBytes;
  }
  /**
   * Whether the account may have more on disk: its share, or all of it if it is alone. What other processes wrote counts for
   * no account.
   *
   * @param isAlone whether no other account of the deployment is known that may need room
   */
  hasRoom(accountId: string, isAlone: boolean): boolean {
    if (this.isFull) return false;
    const own = this.#accountBytes.get(accountId);
    return (isAlone && own === this.#accountBytes.total) || mayTakeBytes(own, this.#maxBytes - this.#bytes, 1);
  }

  /** Adopts the oldest requests of processes that are gone, if this spool is empty. Call it again for the rest. */
  adoptAbandoned(): Promise<void> {
    return this.#enqueue(async () => {
      if (this.isEmpty) await this.#adopt(this.#maxBytes * ADOPTED_SHARE);
    });
  }

  async #adopt(maxBytes: number): Promise<void> {
    for (const segment of await moveAbandoned(this.#folder, maxBytes)) {
      this.#segments.push(segment);
      this.#bytes += segment.bytes;
    }
  }

  /** Appends requests; resolves when they are durable. */
  append(deliveries: readonly NewDelivery[]): Promise<void> {
    const records = deliveries.map((delivery) => ({ accountId: delivery.accountId, record: encodeRecord(delivery) }));
    return this.#enqueue(() => this.#append(records));
  }

  async #append(records: readonly { readonly accountId: string; readonly record: Buffer }[]): Promise<void> {
    this.#writing ??= await this.#createSegment();
    const { file, segment } = this.#writing;
    try {
      await file.appendFile(Buffer.concat(records.map(({ record }) => record)));
      await file.datasync();
    } catch (error) {
      // Some records of the group may be in the file. Their vendors get an error and send them again.
      try {
        await file.truncate(segment.bytes);
      } catch (truncateError) {
        this.#onError(truncateError as Error);
        // The file may end with a partial record, so nothing more may be appended to it.
        await this.#closeWriting();
      }
      throw error;
    }
    for (const { accountId, record } of records) {
      segment.bytes += record.byteLength;
      this.#bytes += record.byteLength;
      this.#accountBytes.add(accountId, record.byteLength);
      segment.accountBytes.set(accountId, (segment.accountBytes.get(accountId) ?? 0) + record.byteLength);
    }
    if (segment.bytes >= SEGMENT_BYTES) await this.#closeWriting();
  }

  /** Reads the oldest requests, about `maxBytes`. Null: the spool is empty. */
  async readOldest(maxBytes: number): Promise<SpooledBatch | null> {
    const reading = await this.#readSegment();
    if (!reading) return null;
    const { deliveries, end, isDamaged } = decodeRecords(reading.content, reading.at, maxBytes);
    reading.isDamaged ||= isDamaged;
    if (deliveries.length === 0) {
      await this.#enqueue(async () => {
        const hasGrown = reading.segment.bytes > reading.readBytes;
        if (hasGrown) return;
        reading.isDamaged ||= reading.readFault === null && isRestDamaged(reading, end);
        await this.#removeSegment(reading);
      });
      return this.readOldest(maxBytes);
    }
    return {
      deliveries,
      remove: () =>
        this.#enqueue(async () => {
          reading.at = end;
          // The segment may have grown meanwhile.
          if (end >= reading.segment.bytes) await this.#removeSegment(reading);
        }),
    };
  }

  /** Keeps a request that the database refuses, for an operator. */
  async keepRefused(delivery: NewDelivery, reason: Error): Promise<void> {
    const { id, channelId, installationId } = delivery;
    const path = join(this.#folder, `${id}.refused`);
    await writeFile(path, encodeRecord(delivery), { mode: 0o600, flush: true });
    this.#onError(
      new UnrepeatedError(
        `The database refused webhook request ${id} of channel ${channelId}, installation ${installationId}: ${reason.message}. It is kept in ${path} and is not tried again. ${SEE_RUNBOOK}`,
      ),
    );
  }

  /** Counts the files that are kept for an operator. */
  async countKept(): Promise<{ readonly refused: number; readonly damaged: number }> {
    const names = await readdir(this.#folder);
    const count = (kind: string): number => names.filter((name) => name.endsWith(`.${kind}`)).length;
    return { refused: count('refused'), damaged: count('damaged') };
  }

  async close(): Promise<void> {
    await this.#enqueue(() => this.#closeWriting());
    // Another process, which may run already, adopts what is left.
    if (this.isEmpty) await rm(join(this.#folder, LOCK), { force: true });
    this.#lock.release();
    // Fails if the folder contains rejected requests, which stay.
    if (this.isEmpty) await rmdir(this.#folder).catch(() => undefined);
  }

  async #createSegment(): Promise<{ file: FileHandle; segment: Segment }> {
    const segment = {
      path: join(this.#folder, `${orderedId(Date.now())}.spool`),
      bytes: 0,
      isOwn: true,
      accountBytes: new Map(),
    };
    const file = await createFile(segment.path, 'ax', () => syncPath(this.#folder));
    this.#segments.push(segment);
    return { file, segment };
  }

  async #closeWriting(): Promise<void> {
    const writing = this.#writing;
    this.#writing = null;
    await writing?.file.close();
  }

  async #readSegment(): Promise<Reading | null> {
    const [segment] = this.#segments;
    if (!segment) return null;
    const reading =
      this.#reading?.segment === segment
        ? this.#reading
        : { segment, content: Buffer.alloc(0), readBytes: -1, at: 0, isDamaged: false, readFault: null };
    // Not read yet, or it is open for writing and has grown.
    if (reading.readBytes < segment.bytes) Object.assign(reading, await this.#readContent(segment));
    this.#reading = reading;
    return reading;
  }

  /** Reads a segment, without records that are being written. Without content if it cannot be read after several attempts. */
  async #readContent({ path, bytes }: Segment): Promise<Pick<Reading, 'content' | 'readBytes' | 'readFault'>> {
    try {
      const content = await readFile(path);
      this.#failedReads = 0;
      return { content: content.subarray(0, bytes), readBytes: bytes, readFault: null };
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      // This process lacks memory or file descriptors: the file may be whole.
      if (EXHAUSTED.includes(code)) throw error;
      this.#failedReads += 1;
      if (this.#failedReads < READ_ATTEMPTS_MAX) throw error;
      return { content: Buffer.alloc(0), readBytes: bytes, readFault: code };
    }
  }

  /** @throws Error if a file that cannot be read cannot be renamed either. It stays the oldest and is read again. */
  async #removeSegment(reading: Reading): Promise<void> {
    const { segment, isDamaged, readFault } = reading;
    if (this.#segments[0] !== segment) return;
    if (this.#writing?.segment === segment) await this.#closeWriting();
    if (readFault !== null) {
      try {
        await this.#keepDamaged(segment, readFault);
      } catch (error) {
        // The disk is away, and the file may be whole when it is back.
        this.#failedReads = 0;
        reading.readBytes = -1;
        throw error;
      }
    }
    this.#segments.shift();
    this.#reading = null;
    this.#failedReads = 0;
    this.#bytes -= segment.bytes;
    for (const [accountId, bytes] of segment.accountBytes) this.#accountBytes.subtract(accountId, bytes);
    if (readFault !== null) return;
    await (isDamaged ? this.#keepDamaged(segment, null) : rm(segment.path, { force: true })).catch(this.#onError);
  }

  async #keepDamaged({ path, bytes }: Segment, readFault: string | null): Promise<void> {
    const kept = `${path}.damaged`;
    const isMissing = await rename(path, kept).then(
      () => false,
      (error: NodeJS.ErrnoException) => this.#requireMissing(error, bytes),
    );
    const sentence = isMissing
      ? `The file ${path} with accepted webhook requests is missing (${bytes} bytes). Those that were not delivered yet are lost.`
      : readFault === null
        ? `The disk changed accepted webhook requests in ${kept}. Those that can be read are delivered; the others are lost.`
        : `Accepted webhook requests in ${kept} cannot be read (${readFault}). Those that were not delivered yet stay in the file.`;
    this.#onError(new UnrepeatedError(`${sentence} ${SEE_RUNBOOK}`));
  }

  /** @throws Error if only the file is not what is missing */
  async #requireMissing(error: NodeJS.ErrnoException, bytes: number): Promise<true> {
    if (error.code !== 'ENOENT') throw error;
    const folder = await stat(this.#folder).catch((fault: NodeJS.ErrnoException) => fault);
    if (!(folder instanceof Error)) return true;
    throw new Error(
      `The folder ${this.#folder} with accepted webhook requests cannot be found (${folder.code}; its oldest file had ${bytes} bytes). Make its disk available again: they are delivered then. If the folder is lost for good, restart the API.`,
    );
  }

  #enqueue<T>(operation: () => Promise<T>): Promise<T> {
    return this.#operations.run('', operation);
  }
}

/**
 * Whether the bytes after `end`, which cannot be decoded, contain accepted requests. A process that is killed while it writes
 * leaves a part of a request that was not accepted.
 */
function isRestDamaged({ segment, content, readBytes }: Reading, end: number): boolean {
  return segment.isOwn ? end < readBytes : hasCompleteRecord(content.subarray(end));
}

/** Creates and locks a folder for this process. Names sort by time. */
async function createFolder(directory: string): Promise<{ folder: string; lock: DataDirLock }> {
  for (let attempt = 1; ; attempt += 1) {
    const folder = join(directory, orderedId(Date.now()));
    await makeFolder(folder);
    // Before the lock, another process may have taken the new folder for an abandoned one and removed it.
    const lock = lockFolder(folder);
    if (lock && existsSync(join(folder, LOCK))) return { folder, lock };
    lock?.release();
    if (attempt === ATTEMPTS_MAX) throw new Error(`Cannot lock a file in ${directory}, so webhooks cannot be spooled.`);
  }
}

function lockFolder(folder: string): DataDirLock | null {
  try {
    return tryLock(join(folder, LOCK));
  } catch {
    // Another process removed the folder, or it is not writable; `createFolder` reports the latter.
    return null;
  }
}

/**
 * Moves the segments of processes that are gone into this process's folder, until they have `maxBytes`.
 *
 * @returns the moved segments, oldest first
 */
async function moveAbandoned(folder: string, maxBytes: number): Promise<Segment[]> {
  const moved: Segment[] = [];
  let movedBytes = 0;
  const directory = dirname(folder);
  for (const name of (await readdir(directory)).sort()) {
    if (name === basename(folder)) continue;
    const abandoned = join(directory, name);
    const lock = lockFolder(abandoned);
    if (!lock) continue;
    // Another process may have emptied and removed the folder before this one locked it.
    for (const file of (await readdir(abandoned).catch(() => [])).sort()) {
      if (file === LOCK || movedBytes >= maxBytes) continue;
      const path = join(folder, file);
      try {
        const { size } = await stat(join(abandoned, file));
        await rename(join(abandoned, file), path);
        if (!file.endsWith('.spool')) continue;
        moved.push({ path, bytes: size, isOwn: false, accountBytes: new Map() });
        movedBytes += size;
      } catch {
        // A file that cannot be moved keeps its folder, and the next adoption tries again.
      }
    }
    await rm(join(abandoned, LOCK), { force: true }).catch(() => undefined);
    lock.release();
    await rmdir(abandoned).catch(() => undefined);
  }
  return moved.sort((a, b) => (a.path < b.path ? -1 : 1));
}
