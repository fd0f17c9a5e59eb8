/** Finds handlers of a channel that are never called: only a plugin with `channel.receive` can be connected to an inbox. */
import { formatLocation } from '../../sdk/contract/errors.ts';
import type { Introspected } from './discovery.ts';

/** Returns one sentence for each handler, with its place. */
export function findChannelWarnings({ registrations: { channel }, placeOf }: Introspected): string[] {
  if (channel.receive) return [];
  const unreachable = (['send', 'handshake'] as const).filter((name) => channel[name]);
  return unreachable.map((name) => {
    const field = `channel.${name}`;
    const message =
      'is never called, because only a plugin with channel.receive can be connected to an inbox. Assign channel.receive, too.';
    return formatLocation({ ...placeOf(field), field, message });
  });
}
