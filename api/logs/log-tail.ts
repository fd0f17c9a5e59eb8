/** Reads an installation's log forwards, each line once, also those that were committed out of order. */
import type { Pool } from 'pg';
import { findNewestLogId, type LogFilter, readLogs, type StoredLogLine } from '../../db/records/logs.ts';

/**
 * Two supervisors may write lines of one installation at the same time, and the one whose line is older commit later.
 * So long after a line others with smaller ids are still looked for. Milliseconds.
 */
const OVERLAP_MS = 5_000;
/** Lines remembered in that time; a log that is faster is read without the second look. */
const REMEMBERED_MAX = 2_000;
/** A line's own time and that in its id may differ by this much. Milliseconds. */
const CLOCK_SLACK_MS = 60_000;
/** Sorts before every id. */
const FIRST = '00000000-0000-7000-8000-000000000000';
const ID = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export class LogTail {
  readonly #pool: Pool;
  readonly #filter: LogFilter;
  /** Lines up to it are none of ours. */
  readonly #start: string;
  /** Lines read of late. */
  readonly #recent = new Set<string>();
  #position: string;

  private constructor(pool: Pool, filter: LogFilter, start: string) {
    this.#pool = pool;
    this.#filter = filter;
    this.#start = start;
    this.#position = start;
  }

  /** @param after the last line its reader knows; null: start with the next to be written */
  static async open(pool: Pool, filter: LogFilter, after: string | null): Promise<LogTail> {
    return new LogTail(pool, filter, after ?? (await findNewestLogId(pool, filter.installationId)) ?? FIRST);
  }

  /** The id to go on from, in this tail or in a later one. */
  get position(): string {
    return this.#position;
  }

  /** The next lines, oldest first; none when there are none now. */
  async read(limit: number): Promise<StoredLogLine[]> {
    const floor = this.#floor();
    for (const id of this.#recent) if (id <= floor) this.#recent.delete(id);
    const position = {
      after: floor,
      without: [...this.#recent],
      since: Math.max(0, (timeOf(floor) ?? 0) - CLOCK_SLACK_MS),
    };
    const lines = await readLogs(this.#pool, this.#filter, position, limit);
    for (const { id } of lines) {
      this.#recent.add(id);
      if (id > this.#position) this.#position = id;
    }
    return lines;
  }

  #floor(): string {
    const time = timeOf(this.#position);
    if (time === null || this.#recent.size > REMEMBERED_MAX) return this.#position;
    const earlier = idAt(Math.max(0, time - OVERLAP_MS));
    return earlier > this.#start ? earlier : this.#start;
  }
}

/** Whether a text is an id as lines have it. */
export const isLogId = (text: string): boolean => ID.test(text);

function timeOf(id: string): number | null {
  const [, high, low] = ID.exec(id) ?? [];
  return high === undefined ? null : Number.parseInt(`${high}${low}`, 16);
}

function idAt(time: number): string {
  const digits = time.toString(16).padStart(12, '0');
  return `${digits.slice(0, 8)}-${digits.slice(8)}${FIRST.slice(13)}`;
}
