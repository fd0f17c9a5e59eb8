/** Reads an installation's log forwards, each line once, including lines committed out of order. */
import type { Pool } from 'pg';
import { readIdTime } from '../../db/postgres/ordered-id.ts';
import { JsonText, type RowEvent, type RowTail, type TailBatch } from '../../db/postgres/row-tail.ts';
import { findNewestLogId, type LogFilter, readLogs } from '../../db/records/logs.ts';

/**
 * Two supervisors may write lines of one installation at the same time, and the older line may be committed later. So
 * lines with smaller ids are still searched for this long. Milliseconds.
 */
const OVERLAP_MS = 5_000;
/** Lines of one read, fewer if they are large. */
const LINES_AT_ONCE = 100;
/** Maximum number of recent lines remembered. A faster log is read without the search for late lines. */
const REMEMBERED_MAX = 2_000;
/** Maximum difference between a line's time and the time in its id. Milliseconds. */
const CLOCK_SLACK_MS = 60_000;
/** Sorts before every id. */
const FIRST = '00000000-0000-7000-8000-000000000000';
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export class LogTail implements RowTail {
  readonly #pool: Pool;
  readonly #filter: LogFilter;
  /** Lines up to this id are skipped. */
  readonly #start: string;
  /** Lines that were looked at recently. */
  readonly #recent = new Set<string>();
  /** The greatest id that was looked at. */
  #position: string;
  /**
   * The greatest id that was sent. Lines that the filter leaves out do not raise it: a client that resumes from it skips every line
   * before it, also one that is committed late.
   */
  #sent: string;

  private constructor(pool: Pool, filter: LogFilter, start: string) {
    this.#pool = pool;
    this.#filter = filter;
    this.#start = start;
    this.#position = start;
    this.#sent = start;
  }

  /** @param after the last line the client has; null: start with the next new line */
  static async open(pool: Pool, filter: LogFilter, after: string | null): Promise<LogTail> {
    return new LogTail(pool, filter, after ?? (await findNewestLogId(pool, filter.installationId)) ?? FIRST);
  }

  get position(): string {
    return this.#position;
  }

  /** Each event has the id to resume from: its line's, or the greatest id sent before it. */
  async read(): Promise<TailBatch> {
    const floor = this.#floor();
    for (const id of this.#recent) if (id <= floor) this.#recent.delete(id);
    const position = {
      after: floor,
      without: [...this.#recent],
      since: Math.max(0, readIdTime(floor) - CLOCK_SLACK_MS),
    };
    const { lines, bytes, hasMore } = await readLogs(this.#pool, this.#filter, position, LINES_AT_ONCE);
    const events: RowEvent[] = [];
    for (const { isWanted, bytesSoFar: _, data, ...line } of lines) {
      this.#recent.add(line.id);
      if (line.id > this.#position) this.#position = line.id;
      if (!isWanted) continue;
      if (line.id > this.#sent) this.#sent = line.id;
      events.push({ id: this.#sent, type: 'line', data: { ...line, data: data === null ? null : new JsonText(data) } });
    }
    return { events, bytes, hasMore };
  }

  #floor(): string {
    if (this.#recent.size > REMEMBERED_MAX) return this.#position;
    const earlier = idAt(Math.max(0, readIdTime(this.#position) - OVERLAP_MS));
    return earlier > this.#start ? earlier : this.#start;
  }
}

export const isLogId = (text: string): boolean => ID.test(text);

/** The smallest id of a millisecond, so that it is the same at each read. */
function idAt(time: number): string {
  const digits = time.toString(16).padStart(12, '0');
  return `${digits.slice(0, 8)}-${digits.slice(8)}${FIRST.slice(13)}`;
}
