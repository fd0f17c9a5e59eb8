/** How many events are remembered at most. Each takes about 90 bytes of the 1 MiB of `host.storage`. */
const SLOTS = 4096;

/**
 * Whether another delivery has brought the event before. Slack sends an event again when it did not get the response in time. A later
 * attempt at the same delivery is no repetition: it must return the same messages.
 */
export async function isRepeated(eventId: string, deliveryId: string): Promise<boolean> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(eventId));
  // An event is forgotten when another one gets its slot, so the storage never fills up.
  const slot = `event:${new DataView(digest).getUint32(0) % SLOTS}`;
  const known = (await host.storage.get(slot)) as { eventId: string; deliveryId: string } | null;
  if (known?.eventId === eventId) return known.deliveryId !== deliveryId;
  try {
    await host.storage.set(slot, { eventId, deliveryId });
  } catch (error) {
    // A full storage must lose no message: a vendor's repetition is answered again instead.
    host.log.warn('Could not remember an event, so a repetition of it is answered again', { eventId, error });
  }
  return false;
}
