/** The cluster's tables as the statements of `db/cluster/` leave them, with counts of what each statement costs. */
import { SHARDS } from '../../db/cluster/shards.ts';
import { LEASE_MS } from '../../db/cluster/supervisors.ts';
import { takesShards } from '../../supervisor/cluster/ownership-policy.ts';
import { placeShards } from '../../supervisor/cluster/placement.ts';

export interface PeerRow {
  readonly id: number;
  readonly capacity: number;
  draining: boolean;
  expiresAt: number;
}
export interface ClusterView {
  /** The remaining time of each valid lease. Milliseconds. */
  readonly live: ReadonlyMap<number, number>;
  readonly candidates: readonly number[];
  readonly placed: readonly (number | null)[];
  readonly shards: readonly (readonly [owner: number | null, epoch: number])[];
}

export class SimulatedDatabase {
  readonly #supervisors = new Map<number, PeerRow>();
  readonly #shards: [owner: number | null, epoch: number][] = Array.from({ length: SHARDS }, () => [null, 0]);
  readonly #placements = new Map<string, readonly (number | null)[]>();
  #epochs = 0;
  isAway = false;
  statements = 0;
  rowsRead = 0;
  /** Writes that were refused because the shard has another owner. */
  fenced = 0;
  /** Called when shards or supervisors changed. */
  onNotify: () => void = () => undefined;

  add(id: number, capacity: number, now: number): void {
    this.#supervisors.set(id, { id, capacity, draining: false, expiresAt: now + LEASE_MS });
    this.#count(2, 0);
    this.onNotify();
  }

  markDraining(id: number): void {
    const row = this.#supervisors.get(id);
    if (row) row.draining = true;
    this.#count(2, 0);
    this.onNotify();
  }

  remove(id: number): void {
    this.#supervisors.delete(id);
    this.#count(2, 0);
    this.onNotify();
  }

  extendLease(id: number, now: number): void {
    const row = this.#supervisors.get(id);
    if (row) row.expiresAt = now + LEASE_MS;
    this.#count(1, 1);
  }

  read(now: number): ClusterView {
    this.#count(1, this.#supervisors.size + SHARDS);
    const peers = [...this.#supervisors.values()].filter(({ expiresAt }) => expiresAt > now);
    const measured = peers.map((peer) => ({ ...peer, expiresInMs: peer.expiresAt - now }));
    return {
      live: new Map(measured.map(({ id, expiresInMs }) => [id, expiresInMs])),
      candidates: peers.filter(({ draining }) => !draining).map(({ id }) => id),
      placed: this.#place(measured.filter(takesShards)),
      shards: this.#shards.map(([owner, epoch]) => [owner, epoch] as const),
    };
  }

  /** All supervisors compute the same from the same list, so the simulation computes it once. */
  #place(candidates: readonly PeerRow[]): readonly (number | null)[] {
    const key = candidates.map(({ id }) => id).join();
    const known = this.#placements.get(key) ?? placeShards(candidates, SHARDS);
    this.#placements.set(key, known);
    return known;
  }

  /** `claim_shards`: takes those whose owner's lease has expired. */
  claim(claimant: number, wanted: readonly number[], now: number): { shard: number; epoch: number }[] {
    this.#count(1, wanted.length);
    if (!this.#isLive(claimant, now)) return [];
    const claimed = wanted.flatMap((shard) => {
      const row = this.#shards[shard];
      if (row === undefined || (row[0] !== null && this.#isLive(row[0], now))) return [];
      this.#epochs += 1;
      row[0] = claimant;
      row[1] = this.#epochs;
      return [{ shard, epoch: this.#epochs }];
    });
    if (claimed.length > 0) this.#notify();
    return claimed;
  }

  release(fences: readonly { shard: number; epoch: number }[]): void {
    this.#count(1, fences.length);
    for (const { shard, epoch } of fences) {
      const row = this.#shards[shard];
      if (row?.[1] !== epoch) continue;
      this.#epochs += 1;
      row[0] = null;
      row[1] = this.#epochs;
    }
    this.#notify();
  }

  /** `hold_shard`. @returns false: the write is refused */
  write(shard: number, epoch: number): boolean {
    const isHeld = this.#shards[shard]?.[1] === epoch;
    if (!isHeld) this.fenced += 1;
    return isHeld;
  }

  ownerOf(shard: number): number | null {
    return this.#shards[shard]?.[0] ?? null;
  }

  #isLive(id: number, now: number): boolean {
    return (this.#supervisors.get(id)?.expiresAt ?? 0) > now;
  }

  #notify(): void {
    this.#count(1, 0);
    this.onNotify();
  }

  #count(statements: number, rows: number): void {
    this.statements += statements;
    this.rowsRead += rows;
  }
}
