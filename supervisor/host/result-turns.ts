/** Lets large results of host calls wait for a turn of the event loop, and slows plugins that read many of them. */
import { KIB, MIB } from '../../sdk/contract/limits.ts';
import { COSTLY_BYTES, waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import { TokenBuckets } from '../../service/timing/token-bucket.ts';
import { weighValue } from '../../service/timing/value-weight.ts';

/**
 * Cost of large results of one installation, bytes. The costliest result, 100,000 small values in 1 MiB, takes 15 to 30 ms: two
 * a second are 3 to 6 % of the event loop.
 */
const RATE = { burst: 16 * MIB, perSecond: 2 * MIB };
/** Cost of a part of a body beside its bytes, because many small parts take long. 2 MiB from gzip arrive in 120 parts, which take 5 ms. Bytes. */
const PART_BYTES = 2 * KIB;

interface Caller {
  readonly accountId: string;
  readonly installationId: string;
}

export class ResultTurns {
  readonly #rates: TokenBuckets;

  /** @param rate in bytes of `weighValue` */
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
    await this.#rates.get(this.#caller.installationId).waitOutDebt(this.#signal);
    await waitForLoopTurn(this.#caller.accountId);
    this.#hasTurn = true;
  }

  /** @returns undefined: the result is small, or its turn has come */
  waitToSend(result: unknown): Promise<void> | undefined {
    return this.#hasTurn || weighValue(result, COSTLY_BYTES) <= COSTLY_BYTES ? undefined : this.wait();
  }

  /** Charges a result that had to wait to its installation. */
  charge(result: unknown): void {
    if (this.#hasTurn) this.#rates.get(this.#caller.installationId).overdraw(weighValue(result));
  }

  /**
   * Charges a decoded part of a response body to its installation, whether or not the body becomes a result: one that is refused for its
   * size has cost as much.
   *
   * @param signal ends the pauses
   * @returns undefined: the installation has not used up its rate
   */
  chargePart(part: Uint8Array, signal: AbortSignal): Promise<void> | undefined {
    const rate = this.#rates.get(this.#caller.installationId);
    return rate.overdraw(PART_BYTES + weighValue(part)) ? undefined : rate.waitOutDebt(signal);
  }
}
