/** How many updates are remembered at most. Each takes about 90 bytes of the 1 MiB of `host.storage`. */
const SLOTS = 4096;

/**
 * Whether another delivery has brought the update before. Telegram sends an update again when it did not get the response in time. A
 * later attempt at the same delivery is no repetition: it must return the same messages.
 */
export async function isRepeated(updateId: number, deliveryId: string): Promise<boolean> {
  // Telegram counts its updates up, so the last ones have a slot each, and the storage never fills up.
  const slot = `update:${updateId % SLOTS}`;
  const known = (await host.storage.get(slot)) as { updateId: number; deliveryId: string } | null;
  if (known?.updateId === updateId) return known.deliveryId !== deliveryId;
  try {
    await host.storage.set(slot, { updateId, deliveryId });
  } catch (error) {
    // A full storage must lose no message: a vendor's repetition is answered again instead.
    host.log.warn('Could not remember an update, so a repetition of it is answered again', { updateId, error });
  }
  return false;
}
