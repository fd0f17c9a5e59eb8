/**
 * Collects rows in memory and writes them together: bounded, never waited for, and patient while the database is away.
 * No owner may hold more than what is still free, so one that floods gets half of the room at most, and whoever comes
 * after it finds some: a hundred flooders leave a hundredth.
 */
import { MIB } from '../../sdk/contract/limits.ts';

/** Longest a row waits before it is written, milliseconds: what a reader of the log notices. */
const FLUSH_AFTER_MS = 200;
/**
 * Rows of one statement, and bytes of them: while it is written it is in memory several times over, and nothing else
 * runs while it is put into words. That takes some ten milliseconds a megabyte.
 */
const BATCH_ROWS = 1_000;
const BATCH_BYTES = MIB / 4;
/**
 * After a statement, times as long as it took, before the next one: a flood of rows takes a quarter of the database, and
 * is as long in coming as it likes. Not when half the room is taken.
 */
const REST_TIMES = 3;
/** Wait after a write that failed, milliseconds. */
const RETRY_AFTER_MS = 1_000;

export interface BatchSettings<Row> {
  /** Bytes held at most; past it new rows are dropped and counted, so that a dead database costs no memory. */
  readonly maxBytes: number;
  sizeOf(row: Row): number;
  /** Whose row it is: owners share the room. */
  ownerOf(row: Row): string;
  write(rows: readonly Row[]): Promise<void>;
  onError(error: Error): void;
}

export class Batch<Row> {
  readonly #settings: BatchSettings<Row>;
  #rows: Row[] = [];
  #bytes = 0;
  /** Bytes of each owner that has rows waiting. */
  readonly #held = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;
  /** Nothing is written before the timer, however much there is. */
  #resting = false;
  #writing: Promise<void> | null = null;
  #dropped = 0;
  /** Somebody waits for all of it to be written. */
  #hurried = false;

  constructor(settings: BatchSettings<Row>) {
    this.#settings = settings;
  }

  get length(): number {
    return this.#rows.length;
  }

  /** Rows dropped since the last call, for want of room. */
  takeDropped(): number {
    const dropped = this.#dropped;
    this.#dropped = 0;
    return dropped;
  }

  /** Keeps a row for writing. False: there was no room. */
  add(row: Row): boolean {
    const size = this.#settings.sizeOf(row);
    const owner = this.#settings.ownerOf(row);
    const held = this.#held.get(owner) ?? 0;
    if (held + size > this.#settings.maxBytes - this.#bytes) {
      this.#dropped += 1;
      return false;
    }
    this.#rows.push(row);
    this.#bytes += size;
    this.#held.set(owner, held + size);
    if (this.#rows.length >= BATCH_ROWS && !this.#resting) this.#start();
    else this.#schedule(FLUSH_AFTER_MS);
    return true;
  }

  /** Writes what is there, once. For the end of the process and for tests. */
  async flush(): Promise<void> {
    this.#hurried = true;
    while (this.#writing) await this.#writing;
    this.#start();
    await this.#writing;
    this.#hurried = false;
  }

  #schedule(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#resting = false;
      this.#start();
    }, ms);
    this.#timer.unref();
  }

  #rest(ms: number): void {
    this.#resting = true;
    this.#schedule(ms);
  }

  #start(): void {
    if (this.#writing) return;
    this.#writing = this.#drain().finally(() => {
      this.#writing = null;
    });
  }

  async #drain(): Promise<void> {
    while (this.#rows.length > 0) {
      const started = performance.now();
      if (!(await this.#writeSome())) return this.#rest(RETRY_AFTER_MS);
      const isUrgent = this.#hurried || 2 * this.#bytes > this.#settings.maxBytes;
      if (this.#rows.length > 0 && !isUrgent) return this.#rest(REST_TIMES * (performance.now() - started));
    }
  }

  /** As many as one statement takes; at least one. */
  #next(): Row[] {
    let bytes = 0;
    const end = this.#rows.findIndex((row, index) => {
      bytes += this.#settings.sizeOf(row);
      return index === BATCH_ROWS || (index > 0 && bytes > BATCH_BYTES);
    });
    return end === -1 ? this.#rows.slice() : this.#rows.slice(0, end);
  }

  async #writeSome(): Promise<boolean> {
    const rows = this.#next();
    try {
      await this.#settings.write(rows);
    } catch (error) {
      this.#settings.onError(error as Error);
      if (!isRefusal(error)) return false;
      await this.#writeEach(rows);
    }
    this.#rows.splice(0, rows.length);
    for (const row of rows) this.#letGo(row);
    return true;
  }

  #letGo(row: Row): void {
    const size = this.#settings.sizeOf(row);
    const owner = this.#settings.ownerOf(row);
    const left = (this.#held.get(owner) ?? 0) - size;
    this.#bytes -= size;
    if (left > 0) this.#held.set(owner, left);
    else this.#held.delete(owner);
  }

  /** One row that Postgres refuses must not hold up the others for ever: each is tried alone, and the bad one dropped. */
  async #writeEach(rows: readonly Row[]): Promise<void> {
    for (const row of rows) {
      try {
        await this.#settings.write([row]);
      } catch {
        this.#dropped += 1;
      }
    }
  }
}

/** SQLSTATE classes 22 (bad data) and 54 (too deep, too large): trying again cannot help. */
const isRefusal = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && /^(22|54)/.test(String(error.code));
