/** Sums calls and resource use of installations by minute, in limited memory, and writes them periodically. */
import type { Pool } from 'pg';
import { mayTakePlace } from '../../db/jobs/account-share.ts';
import { isRejectedRow } from '../../db/postgres/database-errors.ts';
import { asService } from '../../db/postgres/shares.ts';
import { createEmptyHistogram, findBucket } from '../../db/records/duration-histogram.ts';
import { addCallSums, addUsageSums, type CallSums, MINUTE_MS, type UsageSums } from '../../db/records/rollups.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { searchRejected } from './batch.ts';

/** Interval of writes, which is the maximum loss in a crash. Milliseconds. */
const FLUSH_MS = 10_000;
/** Sums held while the database is unavailable, of all accounts; beyond an account's share, new ones are not counted. About 10 MiB. */
const HELD_MAX = 20_000;
/**
 * Handlers of one installation that are counted separately in one minute; further ones are summed. A bundle may have a thousand,
 * and each takes one row per minute and one of the held sums.
 */
const HANDLERS_MAX = 100;
/** Handlers of all installations of one account that are counted separately in one minute. */
const ACCOUNT_HANDLERS_MAX = 500;
/** The name that further handlers of a kind are summed under. Authors cannot choose it. */
const OTHER_HANDLERS = '(other)';
/** Rows of one statement. */
const ROWS_AT_ONCE = 1_000;

/** Result of a call, as it is summed. */
export type CallOutcome = 'ok' | 'cancelled' | 'error' | 'timeout' | 'unavailable';
/** The installation that is counted. */
export interface CountedInstallation {
  readonly installationId: string;
  readonly accountId: string;
}
type Open<Sums> = { -readonly [Key in keyof Sums]: Sums[Key] } & CountedInstallation;
type OpenCalls = Omit<Open<CallSums>, 'buckets'> & { buckets: number[] };
type UsageField = Exclude<keyof UsageSums, 'installationId' | 'minute' | 'memoryMax'>;

export class Rollups {
  readonly #pool: Pool;
  readonly #now: () => number;
  readonly #onError: (error: Error) => void;
  readonly #timer: NodeJS.Timeout;
  #calls = new Map<string, OpenCalls>();
  #usage = new Map<string, Open<UsageSums>>();
  /** Number of sums in `#calls` and `#usage`, by account. */
  #held = new AmountsByKey();
  /** Kind and name of the handlers that are counted separately in this minute, by installation. */
  #handlers = new Map<string, Set<string>>();
  /** Number of names in `#handlers`, by account. */
  #handlersOfAccount = new AmountsByKey();
  #flushing: Promise<void> = Promise.resolve();
  #minute = { number: -1, text: '' };
  /** Calls and resource use not counted since the start because the share of the account was full. */
  dropped = 0;

  constructor(pool: Pool, options: { now?: () => number; flushMs?: number; onError(error: Error): void }) {
    this.#pool = pool;
    this.#now = options.now ?? Date.now;
    this.#onError = options.onError;
    this.#timer = setInterval(() => void this.flush(), options.flushMs ?? FLUSH_MS).unref();
  }

  /** Counts a call and its duration in milliseconds. */
  called(installation: CountedInstallation, kind: string, handler: string, outcome: CallOutcome, ms: number): void {
    const now = this.#now();
    const minute = this.#formatMinute(now);
    const { installationId, accountId } = installation;
    const name = this.#chooseName(installation, kind, handler);
    const key = `${installationId} ${minute} ${kind} ${name}`;
    const sums =
      this.#calls.get(key) ??
      this.#open(this.#calls, key, { installationId, accountId, minute, kind, name, ...createEmptyCalls() });
    if (sums === null) return;
    sums.calls += 1;
    if (outcome === 'error' || outcome === 'unavailable') sums.errors += 1;
    else if (outcome === 'timeout') sums.timeouts += 1;
    else if (outcome === 'cancelled') sums.cancels += 1;
    sums.durationMs += ms;
    const bucket = findBucket(ms);
    sums.buckets[bucket] = (sums.buckets[bucket] ?? 0) + 1;
    sums.lastAt = new Date(now).toISOString();
  }

  /** Adds to an installation's resource use. */
  used(installation: CountedInstallation, field: UsageField, amount = 1): void {
    const sums = this.#openUsage(installation);
    if (sums) sums[field] += amount;
  }

  /** Records resident memory, bytes; keeps the highest of each minute. */
  resident(installation: CountedInstallation, bytes: number): void {
    const sums = this.#openUsage(installation);
    if (sums) sums.memoryMax = Math.max(sums.memoryMax, bytes);
  }

  /** Writes all sums. Sums that cannot be written are kept for the next time, within the limit. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => asService(() => this.#write()));
    return this.#flushing;
  }

  /** Stops after a last flush. */
  close(): Promise<void> {
    clearInterval(this.#timer);
    return this.flush();
  }

  #openUsage({ installationId, accountId }: CountedInstallation): Open<UsageSums> | null {
    const minute = this.#formatMinute(this.#now());
    const key = `${installationId} ${minute}`;
    return (
      this.#usage.get(key) ?? this.#open(this.#usage, key, { installationId, accountId, minute, ...createEmptyUsage() })
    );
  }

  #open<Sums extends CountedInstallation>(sums: Map<string, Sums>, key: string, fresh: Sums): Sums | null {
    if (!mayTakePlace(this.#held.get(fresh.accountId), HELD_MAX - this.#held.total)) {
      this.dropped += 1;
      return null;
    }
    this.#held.add(fresh.accountId);
    sums.set(key, fresh);
    return fresh;
  }

  /** Returns the name that the calls of a handler are summed under. */
  #chooseName({ installationId, accountId }: CountedInstallation, kind: string, name: string): string {
    const handlers = this.#handlers.get(installationId) ?? new Set();
    const handler = `${kind} ${name}`;
    if (handlers.has(handler)) return name;
    if (handlers.size >= HANDLERS_MAX || this.#handlersOfAccount.get(accountId) >= ACCOUNT_HANDLERS_MAX)
      return OTHER_HANDLERS;
    this.#handlers.set(installationId, handlers.add(handler));
    this.#handlersOfAccount.add(accountId);
    return name;
  }

  #formatMinute(now: number): string {
    const number = Math.floor(now / MINUTE_MS);
    if (this.#minute.number !== number) {
      this.#minute = { number, text: new Date(number * MINUTE_MS).toISOString() };
      this.#handlers.clear();
      this.#handlersOfAccount = new AmountsByKey();
    }
    return this.#minute.text;
  }

  async #write(): Promise<void> {
    const [calls, usage] = [this.#calls, this.#usage];
    this.#calls = new Map();
    this.#usage = new Map();
    this.#held = new AmountsByKey();
    await this.#writeAll(
      calls,
      (rows) => addCallSums(this.#pool, rows),
      (key, row) => this.#giveBackCalls(key, row),
    );
    await this.#writeAll(
      usage,
      (rows) => addUsageSums(this.#pool, rows),
      (key, row) => this.#giveBackUsage(key, row),
    );
  }

  /** Writes all sums but those that PostgreSQL rejects. If the database is unavailable, gives back the ones not yet written. */
  async #writeAll<Row>(
    held: ReadonlyMap<string, Row>,
    write: (rows: readonly Row[]) => Promise<void>,
    giveBack: (key: string, row: Row) => void,
  ): Promise<void> {
    type Entries = readonly (readonly [string, Row])[];
    const left = new Map(held);
    const remove = (entries: Entries): void => {
      for (const [key] of entries) left.delete(key);
    };
    const isWritten = async (entries: Entries): Promise<boolean> => {
      try {
        await write(entries.map(([, row]) => row));
      } catch (error) {
        if (!isRejectedRow(error)) throw error;
        if (entries.length === 1) this.#onError(error as Error);
        return false;
      }
      remove(entries);
      return true;
    };
    try {
      while (left.size > 0) {
        const entries = left.entries().take(ROWS_AT_ONCE).toArray();
        if (!(await isWritten(entries))) await searchRejected(entries, isWritten, remove);
      }
    } catch (error) {
      this.#onError(error as Error);
      for (const [key, row] of left) giveBack(key, row);
    }
  }

  #giveBackCalls(key: string, row: OpenCalls): void {
    const newer = this.#calls.get(key);
    if (!newer) return void this.#open(this.#calls, key, row);
    for (const field of ['calls', 'errors', 'timeouts', 'cancels', 'durationMs'] as const) newer[field] += row[field];
    newer.buckets = newer.buckets.map((count, index) => count + (row.buckets[index] ?? 0));
  }

  #giveBackUsage(key: string, row: Open<UsageSums>): void {
    const newer = this.#usage.get(key);
    if (!newer) return void this.#open(this.#usage, key, row);
    for (const field of USAGE_FIELDS) newer[field] += row[field];
    newer.memoryMax = Math.max(newer.memoryMax, row.memoryMax);
  }
}

const USAGE_FIELDS = ['hostCalls', 'denials', 'logLines', 'droppedLines', 'restarts', 'processorMs'] as const;
const createEmptyCalls = () => ({
  calls: 0,
  errors: 0,
  timeouts: 0,
  cancels: 0,
  durationMs: 0,
  buckets: createEmptyHistogram(),
  lastAt: '',
});
const createEmptyUsage = () => ({
  hostCalls: 0,
  denials: 0,
  logLines: 0,
  droppedLines: 0,
  restarts: 0,
  processorMs: 0,
  memoryMax: 0,
});
