/** Lets large results of host calls wait for a turn of the event loop, and slows plugins that read many of them. */
import { setTimeout as delay } from 'node:timers/promises';
import { MIB } from '../../sdk/contract/limits.ts';
import { COSTLY_BYTES, waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import { TokenBuckets } from '../../service/timing/token-bucket.ts';

/** Cost of a value beside its text, bytes. Checking it against the schema takes longer than writing it. */
const VALUE_BYTES = 8;
/** Characters of a text, or bytes of an array, that are checked and sent in the time of one byte of small values. */
const RAW_PER_BYTE = 8;
/**
 * Cost of large results of one installation, bytes. The costliest result, 100,000 small values in 1 MiB, takes 15 to 30 ms: two
 * a second are 3 to 6 % of the event loop.
 */
const RATE = { burst: 16 * MIB, perSecond: 2 * MIB };
/** Pause of an installation that has used up its rate, milliseconds. */
const DEBT_PAUSE_MS = 100;

/** The cost of checking and sending a result, bytes. Reads no more of it than `maxBytes`. */
export function weighResult(value: unknown, maxBytes = Number.POSITIVE_INFINITY): number {
  if (typeof value === 'string') return VALUE_BYTES + value.length / RAW_PER_BYTE;
  if (typeof value !== 'object' || value === null) return VALUE_BYTES;
  if (value instanceof Uint8Array) return VALUE_BYTES + value.byteLength / RAW_PER_BYTE;
  let bytes = VALUE_BYTES;
  if (Array.isArray(value)) {
    for (const item of value) {
      if (bytes > maxBytes) break;
      bytes += weighResult(item, maxBytes - bytes);
    }
    return bytes;
  }
  for (const name in value) {
    if (bytes > maxBytes) break;
    bytes += name.length + weighResult((value as Record<string, unknown>)[name], maxBytes - bytes);
  }
  return bytes;
}

interface Caller {
  readonly accountId: string;
  readonly installationId: string;
}

export class ResultTurns {
  readonly #rates: TokenBuckets;

  /** @param rate in bytes of `weighResult` */
  constructor(rate = RATE, now?: () => number) {
    this.#rates = new TokenBuckets(rate, now);
  }

  /** @param signal ends the pauses of an installation that has used up its rate */
  open(caller: Caller, signal: AbortSignal): ResultTurn {
    return new ResultTurn(caller, this.#rates, signal);
  }
}

/** The turn of the loop in which one call's result is built, checked and sent. */
export class ResultTurn {
  readonly #caller: Caller;
  readonly #rates: TokenBuckets;
  readonly #signal: AbortSignal;
  #hasTurn = false;

  constructor(caller: Caller, rates: TokenBuckets, signal: AbortSignal) {
    this.#caller = caller;
    this.#rates = rates;
    this.#signal = signal;
  }

  /**
   * Waits for the turn before a large result is built. The result must then be built without another wait.
   *
   * @throws AbortError
   */
  async wait(): Promise<void> {
    const rate = this.#rates.get(this.#caller.installationId);
    while (!rate.overdraw(0)) await delay(DEBT_PAUSE_MS, undefined, { signal: this.#signal });
    await waitForLoopTurn(this.#caller.accountId);
    this.#hasTurn = true;
  }

  /** @returns undefined: the result is small, or its turn has come */
  waitToSend(result: unknown): Promise<void> | undefined {
    return this.#hasTurn || weighResult(result, COSTLY_BYTES) <= COSTLY_BYTES ? undefined : this.wait();
  }

  /** Charges a result that had to wait to its installation. */
  charge(result: unknown): void {
    if (this.#hasTurn) this.#rates.get(this.#caller.installationId).overdraw(weighResult(result));
  }
}
