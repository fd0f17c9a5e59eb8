/** Creates UUIDv7s that sort in creation order, also within a millisecond. */
import { randomBytes } from 'node:crypto';

const COUNTER_BITS = 12;
const COUNTER_MAX = 2 ** COUNTER_BITS - 1;
let lastMs = 0;
let counter = 0;

/** Returns a UUIDv7 greater than all earlier ones of this process, even if the clock goes back. */
export function orderedId(now: number): string {
  if (now > lastMs) {
    lastMs = now;
    counter = 0;
  } else if (counter < COUNTER_MAX) counter += 1;
  else {
    // More than 4,096 in a millisecond: use the next one.
    lastMs += 1;
    counter = 0;
  }
  return formatId(lastMs, counter);
}

/** Returns a UUIDv7 of this millisecond, whatever ids this process has created. */
export const createIdAt = (ms: number): string => formatId(ms, 0);

/** When an id was created, milliseconds since 1970. */
export const readIdTime = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);

function formatId(ms: number, count: number): string {
  const time = ms.toString(16).padStart(12, '0');
  const tail = randomBytes(8);
  tail[0] = ((tail[0] ?? 0) & 0x3f) | 0x80;
  const random = tail.toString('hex');
  const sequence = count.toString(16).padStart(3, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${sequence}-${random.slice(0, 4)}-${random.slice(4)}`;
}
