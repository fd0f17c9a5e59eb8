/**
 * What was acknowledged and what arrived, kept outside the system: two files that are only ever appended to, the one by
 * whoever sends, the other by a server that plugins report to. Nothing of it passes through the database under test.
 */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Entry {
  /** The delivery's or the event's id. */
  readonly id: string;
  /** What is to arrive in order; empty: no order is promised. */
  readonly lane: string;
  /** Place in the lane, as it was sent. */
  readonly place: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}
export interface Verdict {
  /** Acknowledged, and never arrived. */
  readonly lost: readonly string[];
  /** Arrivals of what had arrived before: of each, when it first came and when again, milliseconds since 1970. */
  readonly doubles: readonly { readonly id: string; readonly firstAt: number; readonly againAt: number }[];
  /** How many those are. */
  readonly doubled: number;
  /** Lanes and places whose first arrival came after that of a later one. */
  readonly misplaced: readonly string[];
  /** From the acknowledgement to the first arrival, milliseconds, in order of size. */
  readonly waits: readonly number[];
}

/** Compares the two books. */
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
    if (entry.lane === '') continue;
    if (entry.place < (furthest.get(entry.lane) ?? -1)) misplaced.push(`${entry.lane} ${entry.place}`);
    else furthest.set(entry.lane, entry.place);
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
  /** What this process has seen arrive, and what it still waits for, by lane. */
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
    const missing = this.#missing.get(entry.lane) ?? new Set();
    this.#missing.set(entry.lane, missing.add(entry.id));
  }
  arrive(entry: Omit<Entry, 'at'>): void {
    append(this.#arrived, entry);
    this.#seen.add(entry.id);
    this.#missing.get(entry.lane)?.delete(entry.id);
  }

  /** How many of a lane were acknowledged and have not arrived yet. */
  missing(lane: string): number {
    return this.#missing.get(lane)?.size ?? 0;
  }

  acknowledged(): Entry[] {
    return read(this.#acknowledged);
  }
  arrivals(): Entry[] {
    return read(this.#arrived);
  }

  /** As the files say now. */
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
