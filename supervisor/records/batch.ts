/**
 * Collects rows in memory and writes them in batches, without making callers wait. Memory is limited: an owner and its
 * account together may use at most as much as is still free, so one that floods gets a third of it and others always find
 * some. Accounts take turns in each batch, so a flood of one account does not delay the rows of another.
 */
import { isRejectedRow } from '../../db/postgres/database-errors.ts';
import { asService } from '../../db/postgres/shares.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { RoundRobinQueue } from '../../db/timing/round-robin-queue.ts';
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
/**
 * Statements of one search for rejected rows, while other rows wait. Enough for six bad rows in a full batch; then the rest is
 * dropped.
 */
const SEARCH_STATEMENTS_MAX = 64;

interface BatchSettings<Row> {
  /** Maximum bytes in memory. Further rows are dropped and counted, so an unavailable database costs no memory. */
  readonly maxBytes: number;
  sizeOf(row: Row): number;
  /** The account of a row, whose rows are written in their order. */
  accountOf(row: Row): string;
  /** Who wrote a row: owners share the buffer. */
  ownerOf(row: Row): string;
  /** @param isRetry an earlier statement with these rows failed, perhaps only after its commit: skip rows that are stored */
  write(rows: readonly Row[], isRetry: boolean): Promise<void>;
  onError(error: Error): void;
  /** Called with the rows that PostgreSQL rejected, and those dropped with them. They are not tried again. */
  onRejected?(rows: readonly Row[]): void;
}

export class Batch<Row> {
  readonly #settings: BatchSettings<Row>;
  readonly #rows = new RoundRobinQueue<Row>();
  /** Rows of the statement that is being written or has failed. */
  #batch: Row[] = [];
  /** Whether a statement with the batch failed in a way that leaves open whether it was committed. */
  #isRetry = false;
  /** Bytes in memory, including those of the batch. */
  readonly #ofOwner = new AmountsByKey();
  readonly #ofAccount = new AmountsByKey();
  #timer: NodeJS.Timeout | null = null;
  /** Writes nothing before the timer, whatever the size. */
  #resting = false;
  #writing: Promise<void> | null = null;
  /** Callers of `flush` that wait: while there are any, no statement is followed by a rest. */
  #flushes = 0;

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

  /** Tries once to write all waiting rows. For shutdown and tests. */
  async flush(): Promise<void> {
    this.#flushes += 1;
    while (this.#writing) await this.#writing;
    this.#start();
    await this.#writing;
    this.#flushes -= 1;
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
    // A timer that began with the first of these rows may end much sooner.
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#schedule(ms);
  }

  #start(): void {
    if (this.#writing) return;
    // Rows of all accounts, and this is called for one of them.
    this.#writing = asService(() => this.#drain()).finally(() => {
      this.#writing = null;
    });
  }

  async #drain(): Promise<void> {
    while (this.length > 0) {
      const started = performance.now();
      if (!(await this.#writeSome())) return this.#rest(RETRY_AFTER_MS);
      const isUrgent = this.#flushes > 0 || 2 * this.#ofAccount.total > this.#settings.maxBytes;
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

  /** Writes one statement. False: the database is unavailable, so the rows wait. */
  async #writeSome(): Promise<boolean> {
    if (this.#batch.length === 0) {
      this.#batch = this.#takeBatch();
      this.#isRetry = false;
    }
    try {
      if (!(await this.#isWritten(this.#batch))) await this.#writeByAccount();
      return true;
    } catch (error) {
      this.#isRetry = true;
      this.#settings.onError(error as Error);
      return false;
    }
  }

  /** After PostgreSQL rejected a row: writes the rows of each account apart, then searches those that were rejected again. */
  async #writeByAccount(): Promise<void> {
    const accounts = [...Map.groupBy(this.#batch, this.#settings.accountOf).values()];
    const rejected: Row[][] = [];
    for (const rows of accounts) if (accounts.length === 1 || !(await this.#isWritten(rows))) rejected.push(rows);
    for (const rows of rejected) await this.#dropRejected(rows);
  }

  /** Writes rows without those that PostgreSQL rejects. */
  async #dropRejected(rows: readonly Row[]): Promise<void> {
    const dropped: Row[] = [];
    await searchRejected(
      rows,
      (piece) => this.#isWritten(piece),
      (piece) => dropped.push(...piece),
    );
    this.#remove(dropped);
    this.#settings.onRejected?.(dropped);
  }

  /** Writes rows and removes them from the batch. False: PostgreSQL rejects one of them. */
  async #isWritten(rows: readonly Row[]): Promise<boolean> {
    try {
      await this.#settings.write(rows, this.#isRetry);
    } catch (error) {
      if (!isRejectedRow(error)) throw error;
      if (rows.length === 1) this.#settings.onError(error as Error);
      return false;
    }
    this.#remove(rows);
    return true;
  }

  #remove(rows: readonly Row[]): void {
    const { ownerOf, accountOf, sizeOf } = this.#settings;
    for (const row of rows) {
      this.#ofOwner.subtract(ownerOf(row), sizeOf(row));
      this.#ofAccount.subtract(accountOf(row), sizeOf(row));
    }
    const removed = new Set(rows);
    this.#batch = rows.length === this.#batch.length ? [] : this.#batch.filter((row) => !removed.has(row));
  }
}

/**
 * Splits rows that PostgreSQL rejected together in halves, in their order, until the rejected ones are alone.
 *
 * @param isWritten writes rows; false: PostgreSQL rejects one of them
 * @param drop gets the rejected rows, and those for which there were too many statements
 */
export async function searchRejected<Row>(
  rows: readonly Row[],
  isWritten: (piece: readonly Row[]) => Promise<boolean>,
  drop: (piece: readonly Row[]) => void,
): Promise<void> {
  if (rows.length === 1) return drop(rows);
  const pieces = splitInHalves(rows);
  for (let statements = 0; pieces.length > 0; statements += 1) {
    const piece = pieces.pop() ?? [];
    const isSearched = statements < SEARCH_STATEMENTS_MAX;
    if (isSearched && (await isWritten(piece))) continue;
    if (isSearched && piece.length > 1) pieces.push(...splitInHalves(piece));
    else drop(piece);
  }
}

/** The halves of two or more rows, the first one last, where it is taken first. */
function splitInHalves<Row>(rows: readonly Row[]): Row[][] {
  const middle = Math.ceil(rows.length / 2);
  return [rows.slice(middle), rows.slice(0, middle)];
}
