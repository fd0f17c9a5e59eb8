/** How many of a fixed number of places, or bytes, one account may take. */

/**
 * An account may hold this many places for each place that is free, as switches share a buffer by a dynamic threshold: one
 * account gets two thirds of all places, two get two fifths each, and there is nearly always one left for the next.
 */
const HELD_PER_FREE_PLACE = 2;

/**
 * @param held places that the account holds
 * @param free places that no account holds
 */
export const mayTakePlace = (held: number, free: number): boolean => held < HELD_PER_FREE_PLACE * free;

/**
 * Whether an account may take that many more bytes: as with places, it may hold two for each byte that then is free.
 *
 * @param held bytes that the account holds
 * @param free bytes that no account holds
 */
export const mayTakeBytes = (held: number, free: number, bytes: number): boolean =>
  held + bytes <= HELD_PER_FREE_PLACE * (free - bytes);
