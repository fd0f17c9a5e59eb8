/**
 * Records what was acknowledged and what arrived, outside the system under test: two append-only files, one written by the
 * senders, the other by a server that plugins report to.
 */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Entry {
  /** The delivery's or the event's id. */
  readonly id: string;
  /** Entries of one queue must arrive in order. Empty: no order is promised. */
  readonly queue: string;
  /** Position in the queue, as it was sent. */
  readonly place: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}
export interface Verdict {
  /** Ids that were acknowledged and never arrived. */
  readonly lost: readonly string[];
  /** Entries that arrived again: when each came first, and when again. Milliseconds since 1970. */
  readonly doubles: readonly { readonly id: string; readonly firstAt: number; readonly againAt: number }[];
  /** Number of `doubles`. */
  readonly doubled: number;
  /** Queues and places whose first arrival came after that of a later one. */
  readonly misplaced: readonly string[];
  /** Times from the acknowledgement to the first arrival, sorted. Milliseconds. */
  readonly waits: readonly number[];
}

/** Compares the two records. */
export function judge(acknowledged: readonly Entry[], arrived: readonly Entry[]): Verdict {
  const first = new Map<string, Entry>();
  const furthest = new Map<string, number>();
  const misplaced: string[] = [];
  const doubles: { id: string; firstAt: number; againAt: number }[] = [];
  for (const entry of arrived) {
    const before = first.get(entry.id);
    if (before) {
      doubles.push({ id: entry.id, firstAt: before.at, againAt: entry.at });
      continue;
    }
    first.set(entry.id, entry);
    if (entry.queue === '') continue;
    if (entry.place < (furthest.get(entry.queue) ?? -1)) misplaced.push(`${entry.queue} ${entry.place}`);
    else furthest.set(entry.queue, entry.place);
  }
  const waits = acknowledged.map(({ id, at }) => Math.max(0, (first.get(id)?.at ?? Number.NaN) - at));
  return {
    lost: acknowledged.filter(({ id }) => !first.has(id)).map(({ id }) => id),
    doubles,
    doubled: doubles.length,
    misplaced,
    waits: waits.filter((ms) => !Number.isNaN(ms)).sort((a, b) => a - b),
  };
}

/** Two append-only files in a folder. */
export class Ledger {
  readonly #acknowledged: string;
  readonly #arrived: string;
  /** Ids that this process has seen arrive, and those that it still waits for, by queue. */
  readonly #seen = new Set<string>();
  readonly #missing = new Map<string, Set<string>>();

  constructor(folder: string) {
    this.#acknowledged = join(folder, 'acknowledged.ledger');
    this.#arrived = join(folder, 'arrived.ledger');
    for (const path of [this.#acknowledged, this.#arrived]) writeFileSync(path, '', { flag: 'wx' });
  }

  acknowledge(entry: Omit<Entry, 'at'>): void {
    append(this.#acknowledged, entry);
    if (this.#seen.has(entry.id)) return;
    const missing = this.#missing.get(entry.queue) ?? new Set();
    this.#missing.set(entry.queue, missing.add(entry.id));
  }
  arrive(entry: Omit<Entry, 'at'>): void {
    append(this.#arrived, entry);
    this.#seen.add(entry.id);
    this.#missing.get(entry.queue)?.delete(entry.id);
  }

  /** Returns how many entries of a queue were acknowledged and have not arrived yet. */
  missing(queue: string): number {
    return this.#missing.get(queue)?.size ?? 0;
  }

  acknowledged(): Entry[] {
    return read(this.#acknowledged);
  }
  arrivals(): Entry[] {
    return read(this.#arrived);
  }

  /** Compares the files as they are now. */
  verdict(): Verdict {
    return judge(read(this.#acknowledged), read(this.#arrived));
  }
}

const append = (path: string, entry: Omit<Entry, 'at'>): void =>
  appendFileSync(path, `${JSON.stringify({ ...entry, at: Date.now() })}\n`);

const read = (path: string): Entry[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
