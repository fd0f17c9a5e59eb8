/** Extends the supervisor's lease on a connection of its own, so that a busy pool does not delay it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type Pool } from 'pg';
import { isInterruption } from '../../db/postgres/database-errors.ts';
import { Waker } from '../../db/timing/waker.ts';
import { within } from '../../service/timing/within.ts';

const RETRY_MS = 500;
/** Attempts of the first beat, before the start fails. */
const FIRST_ATTEMPTS_MAX = 3;
/** Time limit of connecting and of each statement. Milliseconds. */
const ANSWER_MS = 2_000;
/** Time limit of closing the connection: an unreachable server never confirms it. Milliseconds. */
const END_MS = 250;

interface HeartbeatOptions {
  readonly pool: Pool;
  /** Runs at each beat. @returns the pause until the next one. Milliseconds */
  beat(client: Client): Promise<number>;
  /** Called with the first error in a row. */
  onError(error: Error): void;
  /** Delay before the next heartbeat after a failed one. Milliseconds. */
  readonly retryMs?: number;
}

export class Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #retryMs: number;
  readonly #waker = new Waker();
  #client: Client | null = null;
  readonly #waiting: (() => void)[] = [];
  #running: Promise<void> = Promise.resolve();

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#retryMs = options.retryMs ?? RETRY_MS;
  }

  /** Beats until one succeeds, then again and again. @throws the error of the last attempt, or one that a retry does not mend */
  async start(): Promise<void> {
    const pauseMs = await this.#beatFirst();
    this.#running = this.#run(pauseMs);
  }

  /** Beats now, once more if a beat is under way. */
  wake(): void {
    this.#waker.wake();
  }

  /** Resolves after a beat that begins now, also if it fails; at once when the heartbeat was stopped. */
  beatNow(): Promise<void> {
    if (this.#waker.isClosed) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    this.wake();
    return promise;
  }

  async stop(): Promise<void> {
    this.#waker.close();
    await this.#running;
    for (const resolve of this.#waiting.splice(0)) resolve();
    await this.#disconnect();
  }

  /** While many processes start on a machine, PostgreSQL may take longer than `ANSWER_MS`. */
  async #beatFirst(): Promise<number> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#beat();
      } catch (error) {
        if (attempt === FIRST_ATTEMPTS_MAX || !isInterruption(error)) throw error;
        if (attempt === 1) this.#options.onError(error as Error);
        await sleep(this.#retryMs);
      }
    }
  }

  async #run(firstPauseMs: number): Promise<void> {
    let failures = 0;
    let pauseMs = firstPauseMs;
    for (;;) {
      await this.#waker.wait(pauseMs);
      if (this.#waker.isClosed) return;
      const waiting = this.#waiting.splice(0);
      try {
        pauseMs = await this.#beat();
        failures = 0;
      } catch (error) {
        pauseMs = this.#retryMs;
        failures += 1;
        if (failures === 1) this.#options.onError(error as Error);
      }
      for (const resolve of waiting) resolve();
    }
  }

  async #beat(): Promise<number> {
    try {
      this.#client ??= await this.#connect();
      return await this.#options.beat(this.#client);
    } catch (error) {
      await this.#disconnect();
      throw error;
    }
  }

  async #connect(): Promise<Client> {
    const { options } = this.#options.pool;
    const client = new Client({ ...options, connectionTimeoutMillis: ANSWER_MS, query_timeout: ANSWER_MS });
    // A lost connection rejects the query. Without a listener, the error event would end the process as well.
    client.on('error', () => undefined);
    try {
      await client.connect();
    } catch (error) {
      // Otherwise the socket stays open if the server accepts the connection but never answers.
      void client.end().catch(() => undefined);
      throw error;
    }
    return client;
  }

  async #disconnect(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    if (client)
      await within(
        client.end().catch(() => undefined),
        END_MS,
      );
  }
}
