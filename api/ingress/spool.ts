/**
 * Requests that wait on disk for the database: appended in order and synced before their vendors are answered, taken out
 * in the same order. A folder has one owner at a time, who holds its lock; what a killed one left behind is inherited by
 * the next. Process ids alone would not do: in containers everybody has the same.
 */
import { randomUUIDv7 } from 'node:crypto';
import { existsSync } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, rmdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { NewDelivery } from '../../db/channels/deliveries.ts';
import { type DataDirLock, syncPath, tryLock } from '../../db/files/data-dir.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { decodeRecords, encodeRecord } from './spool-segment.ts';

/** A segment is closed over this size; it is read into memory whole when its turn comes. Bytes. */
const SEGMENT_BYTES = 16 * MIB;
/** Locked by the owner of its folder. */
const LOCK = 'lock';
/** Folders of the release before, without a lock: `<pid>-<when it was started>`. */
const UNLOCKED = /^(\d+)-(\d+)$/;
const TRIES = 5;

interface Segment {
  readonly path: string;
  bytes: number;
}
interface Reading {
  readonly segment: Segment;
  content: Buffer;
  at: number;
}
/** The oldest requests, and what to do when they are safe elsewhere. */
export interface Taken {
  readonly deliveries: readonly NewDelivery[];
  done(): Promise<void>;
}

export class Spool {
  readonly #folder: string;
  readonly #lock: DataDirLock;
  readonly #maxBytes: number;
  readonly #onError: (error: Error) => void;
  /** Oldest first; the last may be the one that is written. */
  readonly #segments: Segment[];
  #writing: { readonly file: FileHandle; readonly segment: Segment } | null = null;
  #bytes: number;
  /** The oldest segment's content and how far it is taken out. */
  #reading: Reading | null = null;
  /** Writing to a segment and removing it take turns. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(
    options: { folder: string; lock: DataDirLock; maxBytes: number; onError(error: Error): void },
    segments: Segment[],
  ) {
    this.#folder = options.folder;
    this.#lock = options.lock;
    this.#maxBytes = options.maxBytes;
    this.#onError = options.onError;
    this.#segments = segments;
    this.#bytes = segments.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * Opens a folder of this process's own below `directory`, with what dead processes left there.
   *
   * @param maxBytes beyond which nothing more is taken
   */
  static async open(directory: string, maxBytes: number, onError: (error: Error) => void): Promise<Spool> {
    const { folder, lock } = await ownFolder(directory);
    await inherit(directory, folder);
    const names = (await readdir(folder)).filter((name) => name.endsWith('.spool')).sort();
    const segments: Segment[] = [];
    for (const name of names) {
      const path = join(folder, name);
      segments.push({ path, bytes: (await stat(path)).size });
    }
    return new Spool({ folder, lock, maxBytes, onError }, segments);
  }

  get isEmpty(): boolean {
    return this.#segments.length === 0;
  }
  /** Bytes on disk. */
  get bytes(): number {
    return this.#bytes;
  }
  /** Whether more fits. */
  get isFull(): boolean {
    return this.#bytes >= this.#maxBytes;
  }

  /** Writes requests to the end; they are on disk when it resolves. */
  append(deliveries: readonly NewDelivery[]): Promise<void> {
    const records = Buffer.concat(deliveries.map(encodeRecord));
    return this.#inTurn(() => this.#append(records));
  }

  async #append(records: Buffer): Promise<void> {
    this.#writing ??= await this.#create();
    const { file, segment } = this.#writing;
    try {
      await file.appendFile(records);
      await file.datasync();
    } catch (error) {
      // Whatever reached the file is whole records or a torn end; nothing more is written behind it.
      await this.#closeWriting();
      throw error;
    }
    segment.bytes += records.byteLength;
    this.#bytes += records.byteLength;
    if (segment.bytes >= SEGMENT_BYTES) await this.#closeWriting();
  }

  /** The oldest requests, at most about so many bytes; null: there are none. */
  async take(maxBytes: number): Promise<Taken | null> {
    const reading = await this.#read();
    if (!reading) return null;
    const { deliveries, end } = decodeRecords(reading.content, reading.at, maxBytes);
    if (deliveries.length === 0) {
      await this.#inTurn(async () => {
        // Else it is a torn end, whose vendor was never answered.
        const hasGrown = reading.segment.bytes > reading.content.byteLength;
        if (!hasGrown) await this.#dropOldest(reading.segment);
      });
      return this.take(maxBytes);
    }
    return {
      deliveries,
      done: () =>
        this.#inTurn(async () => {
          reading.at = end;
          // More may have been written while these were taken out.
          if (end >= reading.segment.bytes) await this.#dropOldest(reading.segment);
        }),
    };
  }

  /** Keeps a request that the database refuses for good, for whoever looks into it. */
  async setAside(delivery: NewDelivery): Promise<void> {
    const path = join(this.#folder, `${delivery.id}.refused`);
    const file = await open(path, 'w', 0o600);
    try {
      await file.writeFile(encodeRecord(delivery));
      await file.sync();
    } finally {
      await file.close();
    }
    this.#onError(new Error(`a webhook request cannot be stored; it is kept in ${path}`));
  }

  async close(): Promise<void> {
    await this.#inTurn(() => this.#closeWriting());
    // What is left is the next one's.
    if (this.isEmpty) await rm(join(this.#folder, LOCK), { force: true });
    this.#lock.release();
    if (this.isEmpty) await rmdir(this.#folder).catch(() => undefined);
  }

  async #create(): Promise<{ file: FileHandle; segment: Segment }> {
    const segment = { path: join(this.#folder, `${randomUUIDv7()}.spool`), bytes: 0 };
    const file = await open(segment.path, 'ax', 0o600);
    await syncPath(this.#folder);
    this.#segments.push(segment);
    return { file, segment };
  }

  async #closeWriting(): Promise<void> {
    const writing = this.#writing;
    this.#writing = null;
    await writing?.file.close();
  }

  async #read(): Promise<Reading | null> {
    const [segment] = this.#segments;
    if (!segment) return null;
    if (this.#reading?.segment !== segment) this.#reading = { segment, content: await readFile(segment.path), at: 0 };
    // Grown since: it is the one that is written.
    else if (this.#reading.content.byteLength < segment.bytes) this.#reading.content = await readFile(segment.path);
    return this.#reading;
  }

  async #dropOldest(segment: Segment): Promise<void> {
    if (this.#segments[0] !== segment) return;
    if (this.#writing?.segment === segment) await this.#closeWriting();
    this.#segments.shift();
    this.#reading = null;
    this.#bytes -= segment.bytes;
    await rm(segment.path, { force: true }).catch(this.#onError);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }
}

/** A folder that nobody else can take while this process lives. Names say when they were made, so they sort by age. */
async function ownFolder(directory: string): Promise<{ folder: string; lock: DataDirLock }> {
  for (let tries = 1; ; tries += 1) {
    const folder = join(directory, randomUUIDv7());
    await mkdir(folder, { recursive: true, mode: 0o700 });
    // A process that starts at the same moment may have taken it for left behind, and away.
    const lock = lockOf(folder);
    if (lock && existsSync(join(folder, LOCK))) return { folder, lock };
    lock?.release();
    if (tries === TRIES) throw new Error(`no file can be locked in ${directory}: webhooks could not be kept there`);
  }
}

function lockOf(folder: string): DataDirLock | null {
  try {
    return tryLock(join(folder, LOCK));
  } catch {
    return null;
  }
}

/** Takes over the folders of processes that are gone. */
async function inherit(directory: string, folder: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const [, pid, born] = UNLOCKED.exec(name) ?? [];
    if (name === basename(folder) || (pid !== undefined && (await startedAt(Number(pid))) === born)) continue;
    const left = join(directory, name);
    const lock = lockOf(left);
    if (!lock) continue;
    for (const file of await readdir(left))
      if (file !== LOCK) await rename(join(left, file), join(folder, file)).catch(() => undefined);
    await rm(join(left, LOCK), { force: true });
    lock.release();
    await rmdir(left).catch(() => undefined);
  }
}

/** When a process was started, in kernel ticks; with its id it names one process for ever. Empty: there is none. */
async function startedAt(pid: number): Promise<string> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  return text.split(') ').at(-1)?.split(' ')[19] ?? '';
}
