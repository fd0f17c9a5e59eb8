/** Keeps the lease of a turn while a step of it runs. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { holdTurn, LEASE_SPARE_PART } from '../../db/sessions/turns.ts';
import type { TurnStep } from './turn-answers.ts';

/** Shorter than the spare part of the shortest lease, which is 1 s. Most steps end sooner, and need no renewal. */
const FIRST_RENEWAL_MS = 200;
/** Share of the spare part after which a lease is renewed. Below 1, because timers may be late. */
const RENEWAL_SHARE = 0.8;

type HeldStep = Pick<TurnStep, 'key' | 'runtime'>;

/** The turn belongs to the runtime while `work` runs, and for `leaseSeconds` afterwards. */
export async function holdDuring<T>(pool: Pool, step: HeldStep, work: () => Promise<T>): Promise<T> {
  const ended = new AbortController();
  renewLease(pool, step, ended.signal).catch(() => undefined);
  try {
    return await work();
  } finally {
    ended.abort();
  }
}

/** Until the signal aborts, or the runtime does not have the turn. */
async function renewLease(pool: Pool, { key, runtime }: HeldStep, signal: AbortSignal): Promise<void> {
  for (let pauseMs = FIRST_RENEWAL_MS; ; ) {
    await sleep(pauseMs, undefined, { signal, ref: false });
    // The database may be back before the lease expires.
    const turn = await holdTurn(pool, key, runtime).catch(() => undefined);
    if (turn === null) return;
    if (turn) pauseMs = turn.leaseSeconds * 1_000 * LEASE_SPARE_PART * RENEWAL_SHARE;
  }
}
