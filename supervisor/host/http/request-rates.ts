/** Limits the processor time that the requests of each account take: a plugin may open new connections as fast as it can. */
import { SECOND } from '../../../sdk/contract/limits.ts';
import { waitForLoopTurn } from '../../../service/timing/loop-turns.ts';
import { TokenBuckets } from '../../../service/timing/token-bucket.ts';
import { HostError } from '../host-call.ts';

/**
 * Processor time of the requests of one account, milliseconds. The sustained rate is 10 % of the event loop: 40 requests over TLS a second,
 * or 100 without.
 */
const PROCESSOR_RATE = { burst: SECOND, perSecond: 100 };
/** What a request takes of the event loop, most of it for its new connection. Not measured for each, because the library reads by itself. Milliseconds. */
const REQUEST_MS = { tls: 2.5, plain: 1 };

/** The processor time of the account is used up until the request's own time is over. */
export class ProcessorTimeError extends HostError {
  constructor() {
    super(
      `the requests of this account have used up their processor time (${PROCESSOR_RATE.perSecond} ms a second for new connections); send fewer requests, or try again later`,
    );
  }
}

export class RequestRates {
  readonly #rates: TokenBuckets;

  /** @param rate in milliseconds of processor time */
  constructor(rate = PROCESSOR_RATE, now?: () => number) {
    this.#rates = new TokenBuckets(rate, now);
  }

  open(accountId: string): RequestRate {
    return new RequestRate(accountId, this.#rates);
  }
}

/** The rate of one account. */
export class RequestRate {
  readonly #accountId: string;
  readonly #rates: TokenBuckets;

  constructor(accountId: string, rates: TokenBuckets) {
    this.#accountId = accountId;
    this.#rates = rates;
  }

  /** Waits until a request may begin, and charges it. @throws ProcessorTimeError when the signal aborts before */
  async begin({ protocol }: URL, signal: AbortSignal): Promise<void> {
    const rate = this.#rates.get(this.#accountId);
    await rate.waitOutDebt(signal).catch(() => {
      throw new ProcessorTimeError();
    });
    rate.overdraw(protocol === 'https:' ? REQUEST_MS.tls : REQUEST_MS.plain);
    await this.waitForTurn();
  }

  /** Resolves when the event loop has time for a step of a request. */
  waitForTurn(): Promise<void> {
    return waitForLoopTurn(this.#accountId);
  }
}
