/** Builds the webhook request that `channel.receive` and `channel.handshake` get. */
import type { ClaimedDelivery } from '../../db/channels/delivery-queue.ts';
import { getOwn } from '../../sdk/contract/get-own.ts';
import { withoutSessions } from '../../service/http/console-requests.ts';

type ReceivedRequest = Pick<
  ClaimedDelivery,
  'id' | 'attempt' | 'channelId' | 'routingId' | 'receivedAt' | 'method' | 'query' | 'headers' | 'body'
>;

/**
 * The argument of `channel.receive` and `channel.handshake`. The child decodes `bodyText`, so that the body is sent
 * once.
 */
export function toRequest(delivery: ReceivedRequest): Record<string, unknown> {
  const headers: Record<string, string> = {};
  // Again, because an API of an earlier release may have stored it.
  const rawHeaders = withoutSessions(delivery.headers);
  for (const [name, value] of rawHeaders) {
    const key = name.toLowerCase();
    const before = getOwn(headers, key);
    // Defines an own property even for the name `__proto__`.
    const joined = before === undefined ? value : `${before}, ${value}`;
    Object.defineProperty(headers, key, { value: joined, enumerable: true, configurable: true, writable: true });
  }
  return {
    deliveryId: delivery.id,
    attempt: delivery.attempt,
    channelId: delivery.channelId,
    routingId: delivery.routingId,
    receivedAt: delivery.receivedAt,
    method: delivery.method,
    query: delivery.query,
    headers,
    rawHeaders,
    bodyText: '',
    bodyBytes: delivery.body,
  };
}
