/** Random choices that a seed repeats (mulberry32). */
import { seed } from './soak.ts';

export interface Random {
  /** A whole number: at least `min`, less than `max`. */
  integer(min: number, max: number): number;
  bytes(length: number): Buffer;
  pick<T>(items: readonly T[]): T;
}

/** The sequence of a seed, by default the run's. Every call starts it anew. */
export function seededRandom(from: number = seed): Random {
  let state = from | 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const integer = (min: number, max: number): number => min + Math.floor((next() / 2 ** 32) * (max - min));
  return {
    integer,
    bytes: (length) => Buffer.from(Uint8Array.from({ length }, () => next() & 0xff)),
    pick(items) {
      if (items.length === 0) throw new Error('there is nothing to pick from');
      return items[integer(0, items.length)] as (typeof items)[number];
    },
  };
}
