/** How the cost of a cluster grows with the number of its supervisors: figures for `docs/scaling.md`. */
import { findShard, SHARDS } from '../../db/cluster/shards.ts';
import { seededRandom } from '../runner/random.ts';
import { simulateCluster } from './cluster-simulation.ts';

export const SIZES = [1, 3, 10, 30, 100, 300, 1_000];
export const INSTALLATIONS = 10_000_000;
export const RUN_MS = 300_000;
const SETTLE_MS = 20_000;
const CALLS_PER_SECOND = 100;
const FAULT_EVERY_MS = 10_000;
/** Cost of forwarding a hook to its owner, divided by the cost of running it. `bench/session-hook.ts --supervisors 3`: 0.45 ms to 0.38 ms. */
const FORWARD_COST = 1.2;
/** Installations of an account: one for most, some hundred for few. */
const LARGEST_ACCOUNT = 400;

export interface ScalingPoint {
  readonly supervisors: number;
  /** For each second. */
  readonly idleStatements: number;
  readonly idleRows: number;
  readonly faultyStatements: number;
  readonly faultyRows: number;
  /** From a supervisor's end to the next owner; null: none with shards ended. Milliseconds. */
  readonly recoveryP99Ms: number | null;
  /** Installations of the fullest supervisor, to the mean. */
  readonly imbalance: number;
  /** Hooks that the cluster answers while its fullest supervisor is busy all the time; those of one supervisor are 1. */
  readonly hooks: number;
  readonly forwardedShare: number;
  readonly refusedShare: number;
  /** Number of violations. */
  readonly violations: number;
}
interface Population {
  readonly installations: number;
  readonly shardsOfCalls: Uint8Array;
  readonly installationsOfShards: Float64Array;
}

/** Spreads installations over accounts, and accounts over shards as the product does. */
export function createPopulation(installations: number, seed: number): Population {
  const random = seededRandom(seed);
  const installationsOfShards = new Float64Array(SHARDS);
  const shards: number[] = [];
  for (let created = 0; created < installations; ) {
    const shard = findShard(`account-${shards.length}`);
    const size = Math.min(installations - created, Math.max(1, Math.floor(LARGEST_ACCOUNT / random.integer(1, 1_000))));
    installationsOfShards[shard] = (installationsOfShards[shard] ?? 0) + size;
    shards.push(shard);
    created += size;
  }
  return { installations, shardsOfCalls: Uint8Array.from(shards), installationsOfShards };
}

export function measureScaling(population: Population, supervisors: number, runMs: number, seed: number): ScalingPoint {
  const result = simulateCluster({
    seed,
    supervisors,
    shardsOfCalls: population.shardsOfCalls,
    installationsOfShards: population.installationsOfShards,
    callsPerSecond: CALLS_PER_SECOND,
    faultEveryMs: FAULT_EVERY_MS,
    faults: ['crash', 'pause', 'cut', 'outage', 'replace'],
    settleMs: SETTLE_MS,
    runMs,
  });
  const { recoveries } = result;
  return {
    supervisors,
    idleStatements: result.idleStatements,
    idleRows: result.idleRows,
    faultyStatements: result.statements,
    faultyRows: result.rowsRead,
    recoveryP99Ms: recoveries[Math.floor(0.99 * (recoveries.length - 1))] ?? null,
    imbalance: result.imbalance,
    hooks: computeHooks(supervisors, result.imbalance),
    forwardedShare: result.forwardedShare,
    refusedShare: (result.refused + result.brokenOff) / Math.max(1, result.calls),
    violations: result.overlaps + result.staleWrites,
  };
}

/** Calls are spread evenly over the supervisors, and forwarded where another one owns the account. */
function computeHooks(supervisors: number, imbalance: number): number {
  const ownShare = imbalance / supervisors;
  return 1 / (ownShare + (FORWARD_COST * (1 - ownShare)) / supervisors);
}
