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
  const time = lastMs.toString(16).padStart(12, '0');
  const tail = randomBytes(8);
  tail[0] = ((tail[0] ?? 0) & 0x3f) | 0x80;
  const random = tail.toString('hex');
  const count = counter.toString(16).padStart(3, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${count}-${random.slice(0, 4)}-${random.slice(4)}`;
}
