/** Streams new messages of an account's transcripts, written by any supervisor. */
import type { Listener } from '../../db/postgres/listener.ts';
import { subscribeToMessages } from '../../db/sessions/session-tail.ts';
import { type RowStreamOptions, RowStreams } from '../../service/http/row-streams.ts';

/** Creates the streams of this process. */
export function openSessionStreams(listener: Listener, options: RowStreamOptions = {}): RowStreams {
  const subscribe = (wake: (key: string | null) => void) => subscribeToMessages(listener, wake, () => wake(null));
  return new RowStreams({ follow: subscribe, things: 'session streams' }, options);
}
