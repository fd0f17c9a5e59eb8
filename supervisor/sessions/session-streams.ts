/** Streams what happens in an account's sessions, written by any supervisor. */
import type { Listener } from '../../db/postgres/listener.ts';
import type { RowTail } from '../../db/postgres/row-tail.ts';
import { announceReader, type SessionTail, subscribeToMessages } from '../../db/sessions/session-tail.ts';
import { type RowStreamOptions, RowStreams } from '../../service/http/row-streams.ts';
import type { AccountPluginsCache } from '../children/account-plugins-cache.ts';
import { digestTools } from './tools.ts';

/** Creates the streams of this process. A change of an account's plugins wakes its streams too. */
export function openSessionStreams(
  listener: Listener,
  options: RowStreamOptions = {},
  pluginsCache?: AccountPluginsCache,
): RowStreams {
  const subscribe = async (wake: (key: string | null) => void) => {
    const subscription = await subscribeToMessages(listener, wake, () => wake(null));
    // Only now: a subscription that fails is made again.
    pluginsCache?.watch(wake);
    return subscription;
  };
  return new RowStreams(
    { follow: subscribe, announce: (accountId) => announceReader(listener, accountId), things: 'session streams' },
    options,
  );
}

/** Begins with an event `open`: the reader's position, and whether the reader may have missed events before it. */
export function addOpenEvent(tail: SessionTail): RowTail {
  let isOpen = false;
  return {
    get position() {
      return tail.position;
    },
    async read() {
      if (isOpen) return tail.read();
      isOpen = true;
      const { position, hasGap: gap } = tail;
      return { events: [{ id: position, type: 'open', data: { position, gap } }], bytes: 0, hasMore: true };
    },
  };
}

/** Adds an event `tools` when the tools of the account are others than at the last read. */
export async function addToolEvents(
  tail: RowTail,
  pluginsCache: AccountPluginsCache,
  accountId: string,
): Promise<RowTail> {
  let plugins = await pluginsCache.get(accountId);
  let known = digestTools(plugins);
  return {
    get position() {
      return tail.position;
    },
    async read() {
      const rows = await tail.read();
      const now = await pluginsCache.get(accountId);
      // `now` is the same object until the account's plugins change. Most reads are for messages.
      if (now === plugins) return rows;
      plugins = now;
      const tools = digestTools(plugins);
      if (tools === known) return rows;
      known = tools;
      return { ...rows, events: [...rows.events, { id: tail.position, type: 'tools', data: {} }] };
    },
  };
}
