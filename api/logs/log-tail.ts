/** Reads an installation's log forwards, each line once, including lines committed out of order. */
import type { Pool } from 'pg';
import { JsonText, type RowEvent, type RowTail, type TailBatch } from '../../db/postgres/row-tail.ts';
import { findNewestLogId, type LogFilter, listLogIds, readLogs } from '../../db/records/logs.ts';

/**
 * A line may be committed after lines with greater ids: by another supervisor at the same time, or after the account moved to a
 * supervisor whose clock is behind. So lines of this time are still searched for: clocks may differ by a minute, and a commit
 * takes seconds. Milliseconds.
 */
const OVERLAP_MS = 65_000;
/** Lines of one read, fewer if they are large. */
const LINES_AT_ONCE = 100;
/** Maximum number of recent lines remembered. In a faster log, late lines with smaller ids than these are not searched for. */
const REMEMBERED_MAX = 2_000;
/** Sorts before every id. */
const FIRST = '00000000-0000-7000-8000-000000000000';
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export class LogTail implements RowTail {
  readonly #pool: Pool;
  readonly #filter: LogFilter;
  /** Lines up to this id are skipped. */
  #floor: string;
  /** Lines after the floor that are skipped: those that were looked at, and those that the client has. */
  readonly #recent: Set<string>;
  /** The greatest id that was looked at. */
  #position: string;
  /**
   * The greatest id that was sent. Lines that the filter leaves out do not raise it: a client that resumes from it skips every line
   * before it, also one that is committed late.
   */
  #sent: string;

  private constructor(
    pool: Pool,
    filter: LogFilter,
    start: { readonly after: string; readonly floor: string; readonly recent: readonly string[] },
  ) {
    this.#pool = pool;
    this.#filter = filter;
    this.#floor = start.floor;
    this.#recent = new Set(start.recent);
    this.#position = start.after;
    this.#sent = start.after;
  }

  /** @param given the last line the client has; null: start with the next new line */
  static async open(pool: Pool, filter: LogFilter, given: string | null): Promise<LogTail> {
    const { installationId } = filter;
    const after = given ?? (await findNewestLogId(pool, installationId)) ?? FIRST;
    const floor = findFloor(after);
    if (floor === after) return new LogTail(pool, filter, { after, floor, recent: [] });
    // The client may have these lines. Others with smaller ids than `after` may still be committed.
    const recent = await listLogIds(pool, { installationId, after: floor, upTo: after }, REMEMBERED_MAX);
    return new LogTail(pool, filter, { after, floor, recent });
  }

  get position(): string {
    return this.#position;
  }

  /** Each event has the id to resume from: its line's, or the greatest id sent before it. */
  async read(): Promise<TailBatch> {
    this.#raiseFloor();
    const position = { after: this.#floor, without: [...this.#recent] };
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

  #raiseFloor(): void {
    const floor = findFloor(this.#position);
    if (floor > this.#floor) this.#skipUpTo(floor);
    if (this.#recent.size >= REMEMBERED_MAX) this.#skipUpTo([...this.#recent].sort().at(-REMEMBERED_MAX / 2) ?? floor);
  }

  #skipUpTo(floor: string): void {
    this.#floor = floor;
    for (const id of this.#recent) if (id <= floor) this.#recent.delete(id);
  }
}

export const isLogId = (text: string): boolean => ID.test(text);

/** The id up to which no more lines are expected, at most this position. */
function findFloor(position: string): string {
  const floor = idAt(Date.now() - OVERLAP_MS);
  return position < floor ? position : floor;
}

/** The smallest id of a millisecond, so that it is the same at each read. */
function idAt(time: number): string {
  const digits = time.toString(16).padStart(12, '0');
  return `${digits.slice(0, 8)}-${digits.slice(8)}${FIRST.slice(13)}`;
}
