/**
 * Collects rows in memory and writes them in batches, without making callers wait. Memory is limited: an owner may use
 * at most as much as is still free, so one that floods gets half of it and others always find some.
 */
import { isRejectedRow } from '../../db/postgres/database-errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';

/** Maximum delay of a row. Milliseconds. */
const FLUSH_AFTER_MS = 200;
/**
 * Rows and bytes of one statement. While it is written it takes several times its size in memory, and formatting it
 * blocks the event loop for some ten milliseconds per megabyte.
 */
const BATCH_ROWS = 1_000;
const BATCH_BYTES = MIB / 4;
/**
 * Pause after a statement, as a multiple of its duration: limits a flood to a quarter of the database's time. Ignored
 * when the buffer is half full.
 */
const REST_TIMES = 3;
/** Delay after a failed write. Milliseconds. */
const RETRY_AFTER_MS = 1_000;

interface BatchSettings<Row> {
  /** Maximum bytes in memory. Further rows are dropped and counted, so an unavailable database costs no memory. */
  readonly maxBytes: number;
  sizeOf(row: Row): number;
  /** The owner of a row: owners share the buffer. */
  ownerOf(row: Row): string;
  write(rows: readonly Row[]): Promise<void>;
  onError(error: Error): void;
}

export class Batch<Row> {
  readonly #settings: BatchSettings<Row>;
  #rows: Row[] = [];
  #bytes = 0;
  /** Waiting bytes of each owner. */
  readonly #held = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;
  /** Writes nothing before the timer, whatever the size. */
  #resting = false;
  #writing: Promise<void> | null = null;
  /** A caller of `flush` waits until everything is written. */
  #hurried = false;

  constructor(settings: BatchSettings<Row>) {
    this.#settings = settings;
  }

  get length(): number {
    return this.#rows.length;
  }

  /** Adds a row. False: the buffer is full. */
  add(row: Row): boolean {
    const size = this.#settings.sizeOf(row);
    const owner = this.#settings.ownerOf(row);
    const held = this.#held.get(owner) ?? 0;
    if (held + size > this.#settings.maxBytes - this.#bytes) return false;
    this.#rows.push(row);
    this.#bytes += size;
    this.#held.set(owner, held + size);
    if (this.#rows.length >= BATCH_ROWS && !this.#resting) this.#start();
    else this.#schedule(FLUSH_AFTER_MS);
    return true;
  }

  /** Writes all waiting rows once. For shutdown and tests. */
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

  /** Takes the rows of one statement; at least one. */
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
      if (!isRejectedRow(error)) return false;
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

  /** If PostgreSQL rejects a row, tries each row alone and drops the bad one. */
  async #writeEach(rows: readonly Row[]): Promise<void> {
    for (const row of rows) await this.#settings.write([row]).catch(() => undefined);
  }
}
