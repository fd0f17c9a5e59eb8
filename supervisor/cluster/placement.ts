/** Decides which supervisor each shard belongs to. Pure: all supervisors compute the same from the same list. */

interface Candidate {
  readonly id: number;
  /** Its share of the shards, relative to the others. */
  readonly capacity: number;
}

/**
 * Weighted rendezvous hashing: each shard goes to the candidate with the highest score. So a candidate that comes or goes
 * moves its own shards only.
 *
 * @returns the candidate of each shard; null: there are no candidates
 */
export function placeShards(candidates: readonly Candidate[], shards: number): (number | null)[] {
  return Array.from({ length: shards }, (_, shard) => {
    let best: { readonly id: number; readonly score: number } | null = null;
    for (const { id, capacity } of candidates) {
      const score = -capacity / Math.log(hashToFraction(id, shard));
      if (best === null || score > best.score || (score === best.score && id < best.id)) best = { id, score };
    }
    return best?.id ?? null;
  });
}

/** Spreads the pair over the numbers between 0 and 1: the finalizer of MurmurHash3 over both. */
function hashToFraction(id: number, shard: number): number {
  const mixed = mix(mix(id) ^ Math.imul(shard + 1, 0x9e3779b1));
  return (mixed + 0.5) / 2 ** 32;
}

function mix(value: number): number {
  let hash = value >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
