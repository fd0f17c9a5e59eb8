/** Streams log lines as server-sent events. */
import type { Listener } from '../../db/postgres/listener.ts';
import { subscribeToLogs } from '../../db/records/logs.ts';
import { type RowStreamOptions, RowStreams } from '../../service/http/row-streams.ts';

/** Creates the streams of this process. The key of a stream is its installation. */
export function openLogStreams(listener: Listener, options: RowStreamOptions = {}): RowStreams {
  const subscribe = (wake: (key: string | null) => void) => subscribeToLogs(listener, wake, () => wake(null));
  return new RowStreams({ follow: subscribe, things: 'logs' }, options);
}
