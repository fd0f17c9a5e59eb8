/** Streams log lines as server-sent events. */
import type { Pool } from 'pg';
import type { Listener } from '../../db/postgres/listener.ts';
import type { RowEvent, RowTail } from '../../db/postgres/row-tail.ts';
import { type LogFilter, type StoredLogLine, subscribeToLogs } from '../../db/records/logs.ts';
import { type RowStreamOptions, RowStreams } from '../../service/http/row-streams.ts';
import { LogTail } from './log-tail.ts';

/** Lines per read: limits the memory of a slow client. */
const LINES_AT_ONCE = 100;

/** Creates the streams of this process. The key of a stream is its installation. */
export function openLogStreams(listener: Listener, options: RowStreamOptions = {}): RowStreams {
  const subscribe = (wake: (key: string | null) => void) => subscribeToLogs(listener, wake, () => wake(null));
  return new RowStreams({ follow: subscribe, things: 'logs' }, options);
}

/** @param after the last line that the client has; null: start with new lines */
export async function openEventTail(pool: Pool, filter: LogFilter, after: string | null): Promise<RowTail> {
  const tail = await LogTail.open(pool, filter, after);
  return {
    get position() {
      return tail.position;
    },
    async read() {
      const before = tail.position;
      const { lines, more } = await tail.read(LINES_AT_ONCE);
      return { events: asEvents(lines, before), more };
    },
  };
}

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
