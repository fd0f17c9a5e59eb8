/**
 * A TCP connection to a host that may be hostile. Its bytes are passed on in small slices and in turns with other work, and the processor
 * time that reading them takes is charged to the account: a host may send packets without contents, or ask for new keys, without end.
 */
import { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { KIB, SECOND } from '../../../sdk/contract/limits.ts';
import { LoopSlices } from '../../../service/timing/loop-turns.ts';
import { DEBT_PAUSE_MS, TokenBuckets } from '../../../service/timing/token-bucket.ts';

/** Reading it takes up to a millisecond, if it holds only packets without contents. */
const SLICE_BYTES = 4 * KIB;
/**
 * Processor time of the connections of one account, milliseconds. A login takes up to 5 ms, 5 MiB of output 5 ms, and 5 MiB of packets
 * without contents 400 ms. The sustained rate is 5 % of the event loop.
 */
const PROCESSOR_RATE = { burst: SECOND, perSecond: 50 };
const MICROSECONDS_PER_MS = 1_000;

/** The processor time that the connections of each account may take. */
export const openProcessorRates = (now?: () => number): TokenBuckets => new TokenBuckets(PROCESSOR_RATE, now);

interface Arrivals {
  /** Bytes that may still arrive. */
  left: number;
  onTooMany(): void;
}

export class MeteredSocket extends Duplex {
  /** Half-open, so that only the reader of this stream ends it. */
  readonly #socket = new Socket({ allowHalfOpen: true });
  readonly #accountId: string;
  readonly #rates: TokenBuckets;
  readonly #slices: LoopSlices;
  #arrivals: Arrivals | null = null;
  /** Resolves when the last chunk has been passed on. */
  #passing: Promise<void> = Promise.resolve();
  /** Ends the wait for a reader that has paused. */
  #onWanted: (() => void) | null = null;

  constructor(accountId: string, rates: TokenBuckets) {
    super({ allowHalfOpen: false });
    this.#accountId = accountId;
    this.#rates = rates;
    this.#slices = new LoopSlices(accountId);
    // The library asks for this, too, but cannot reach the socket: a small packet would wait until the one before is acknowledged.
    this.#socket.setNoDelay(true);
    this.#socket.on('data', (chunk: Buffer) => {
      this.#socket.pause();
      this.#passing = this.#passOn(chunk).then(() => void this.#socket.resume());
    });
    // It comes also while the socket is paused.
    this.#socket.on('end', () => void this.#passing.then(() => this.destroyed || this.push(null)));
    this.#socket.on('error', (error) => this.destroy(error));
  }

  connectTo(address: string, port: number): void {
    this.#socket.connect({ host: address, port });
  }

  /** Calls `onTooMany` once if more bytes arrive from now on. @returns a function that ends the limit */
  limitArrivals(maxBytes: number, onTooMany: () => void): () => void {
    const arrivals = { left: maxBytes, onTooMany };
    this.#arrivals = arrivals;
    return () => {
      if (this.#arrivals === arrivals) this.#arrivals = null;
    };
  }

  override _read(): void {
    this.#onWanted?.();
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }

  override _final(done: () => void): void {
    this.#socket.end(() => done());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#onWanted?.();
    this.#socket.destroy();
    done(error);
  }

  async #passOn(chunk: Buffer): Promise<void> {
    this.#countArrival(chunk.byteLength);
    const rate = this.#rates.get(this.#accountId);
    for (let start = 0; start < chunk.byteLength; start += SLICE_BYTES) {
      while (!rate.overdraw(0) && !this.destroyed) await delay(DEBT_PAUSE_MS, undefined, { ref: false });
      await this.#slices.pauseWhenOver();
      if (this.destroyed) return;
      const before = process.threadCpuUsage();
      // The reader parses the slice before `push` returns.
      const isWanted = this.push(chunk.subarray(start, start + SLICE_BYTES));
      const { user, system } = process.threadCpuUsage(before);
      rate.overdraw((user + system) / MICROSECONDS_PER_MS);
      if (!isWanted) await this.#waitUntilWanted();
    }
  }

  async #waitUntilWanted(): Promise<void> {
    if (this.destroyed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onWanted = resolve;
    await promise;
    this.#onWanted = null;
  }

  #countArrival(bytes: number): void {
    const arrivals = this.#arrivals;
    if (!arrivals) return;
    arrivals.left -= bytes;
    if (arrivals.left >= 0) return;
    this.#arrivals = null;
    arrivals.onTooMany();
  }
}
