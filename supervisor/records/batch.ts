/**
 * Collects rows in memory and writes them in batches, without making callers wait. Memory is limited: an owner and its
 * account together may use at most as much as is still free, so one that floods gets a third of it and others always find
 * some. Accounts take turns in each batch, so a flood of one account does not delay the rows of another.
 */
import { isRejectedRow } from '../../db/postgres/database-errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { AmountsByKey } from '../../service/timing/amounts-by-key.ts';
import { TurnQueue } from '../../service/timing/turn-queue.ts';

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
  /** The account of a row, whose rows are written in their order. */
  accountOf(row: Row): string;
  /** Who wrote a row: owners share the buffer. */
  ownerOf(row: Row): string;
  write(rows: readonly Row[]): Promise<void>;
  onError(error: Error): void;
}

export class Batch<Row> {
  readonly #settings: BatchSettings<Row>;
  readonly #rows = new TurnQueue<Row>();
  /** Rows of the statement that is being written or has failed. */
  #batch: Row[] = [];
  /** Waiting bytes. */
  readonly #ofOwner = new AmountsByKey();
  readonly #ofAccount = new AmountsByKey();
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
    return this.#rows.size + this.#batch.length;
  }

  /** Adds a row. False: the buffer is full. */
  add(row: Row): boolean {
    const size = this.#settings.sizeOf(row);
    const owner = this.#settings.ownerOf(row);
    const account = this.#settings.accountOf(row);
    const free = this.#settings.maxBytes - this.#ofAccount.total;
    if (this.#ofOwner.get(owner) + this.#ofAccount.get(account) + size > free) return false;
    this.#rows.push(account, row);
    this.#ofOwner.add(owner, size);
    this.#ofAccount.add(account, size);
    if (this.length >= BATCH_ROWS && !this.#resting) this.#start();
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
    while (this.length > 0) {
      const started = performance.now();
      if (!(await this.#writeSome())) return this.#rest(RETRY_AFTER_MS);
      const isUrgent = this.#hurried || 2 * this.#ofAccount.total > this.#settings.maxBytes;
      if (this.length > 0 && !isUrgent) return this.#rest(REST_TIMES * (performance.now() - started));
    }
  }

  /** Takes the rows of one statement, the accounts in turn. */
  #takeBatch(): Row[] {
    const rows: Row[] = [];
    let bytes = 0;
    while (rows.length < BATCH_ROWS) {
      const next = this.#rows.peek();
      if (next === undefined) break;
      bytes += this.#settings.sizeOf(next);
      if (rows.length > 0 && bytes > BATCH_BYTES) break;
      this.#rows.shift();
      rows.push(next);
    }
    return rows;
  }

  async #writeSome(): Promise<boolean> {
    if (this.#batch.length === 0) this.#batch = this.#takeBatch();
    const rows = this.#batch;
    try {
      await this.#settings.write(rows);
    } catch (error) {
      this.#settings.onError(error as Error);
      if (!isRejectedRow(error)) return false;
      await this.#writeEach(rows);
    }
    this.#batch = [];
    const { ownerOf, accountOf, sizeOf } = this.#settings;
    for (const row of rows) {
      this.#ofOwner.subtract(ownerOf(row), sizeOf(row));
      this.#ofAccount.subtract(accountOf(row), sizeOf(row));
    }
    return true;
  }

  /** If PostgreSQL rejects a row, tries each row alone and drops the bad one. */
  async #writeEach(rows: readonly Row[]): Promise<void> {
    for (const row of rows) await this.#settings.write([row]).catch(() => undefined);
  }
}
