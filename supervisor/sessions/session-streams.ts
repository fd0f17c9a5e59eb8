/** Streams of what is added to accounts' transcripts, by whichever supervisor. */
import type { Listener } from '../../db/postgres/listener.ts';
import { subscribeToMessages } from '../../db/sessions/session-tail.ts';
import { type RowStreamOptions, RowStreams } from '../../service/http/row-streams.ts';

/** The streams of this process. */
export function openSessionStreams(listener: Listener, options: RowStreamOptions = {}): RowStreams {
  const follow = (wake: (key: string | null) => void) => subscribeToMessages(listener, wake, () => wake(null));
  return new RowStreams({ follow, things: 'session streams' }, options);
}
