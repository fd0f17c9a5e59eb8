/** Streams log lines as server-sent events. */
import type { Readable } from 'node:stream';
import type { Pool } from 'pg';
import type { Listener } from '../../db/postgres/listener.ts';
import type { RowEvent, RowTail } from '../../db/postgres/row-tail.ts';
import { type LogFilter, type StoredLogLine, subscribeToLogs } from '../../db/records/logs.ts';
import { type RowStreamOptions, RowStreams } from '../../service/http/row-streams.ts';
import { LogTail } from './log-tail.ts';

/** Lines per read: limits the memory of a slow client. */
const LINES_AT_ONCE = 100;

interface LogStreamRequest {
  readonly accountId: string;
  readonly filter: LogFilter;
  /** The last line the client has; null: start with new lines. */
  readonly after: string | null;
  /** Whether the account still has the installation. */
  isThere(): Promise<boolean>;
}

export class LogStreams {
  readonly #pool: Pool;
  readonly #streams: RowStreams;

  constructor(deps: { readonly pool: Pool; readonly listener: Listener }, options: RowStreamOptions = {}) {
    this.#pool = deps.pool;
    const subscribe = (wake: (key: string | null) => void) => subscribeToLogs(deps.listener, wake, () => wake(null));
    this.#streams = new RowStreams({ follow: subscribe, things: 'logs' }, options);
  }

  get size(): number {
    return this.#streams.size;
  }

  /** Opens a stream. It ends when it is destroyed, after its lifetime, or with `close`. @throws Problem `rate_limited` */
  open({ accountId, filter, after, isThere }: LogStreamRequest): Promise<Readable> {
    const openTail = async () => eventTail(await LogTail.open(this.#pool, filter, after));
    return this.#streams.open({ accountId, key: filter.installationId, openTail, isThere });
  }

  /** Ends all streams; their clients reconnect to another process. */
  close(): void {
    this.#streams.close();
  }
}

const eventTail = (tail: LogTail): RowTail => ({
  get position() {
    return tail.position;
  },
  async read() {
    const before = tail.position;
    const lines = await tail.read(LINES_AT_ONCE);
    return { events: asEvents(lines, before), more: lines.length === LINES_AT_ONCE };
  },
});

/**
 * Formats each line with the id to resume from: its own, or the greatest id sent before it.
 *
 * @param sent the greatest id so far
 */
function asEvents(lines: readonly StoredLogLine[], sent: string): RowEvent[] {
  let greatest = sent;
  return lines.map((line) => {
    if (line.id > greatest) greatest = line.id;
    return { id: greatest, type: 'line', data: line };
  });
}
