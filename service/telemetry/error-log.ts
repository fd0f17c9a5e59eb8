/** Logs the errors of background tasks: while the database is away, one line for all of them, and one when it is back. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { isDatabaseUnavailable } from '../../db/postgres/database-errors.ts';
import { REPORTED_WITHIN_MS } from './repeated-errors.ts';

/** Interval between checks whether the database is back. Milliseconds. */
const CHECK_EVERY_MS = 1_000;

/** An error that the process does not repair by a retry. Its message says what happened and what to do. */
export class UnrepeatedError extends Error {
  override readonly name = 'UnrepeatedError';
}

interface ErrorLogOptions {
  readonly logger: Pick<FastifyBaseLogger, 'error' | 'warn'>;
  /** Null: the database answers and accepts writes. Otherwise the reason why not. Never rejects. */
  checkDatabase(): Promise<string | null>;
  /** Milliseconds. */
  readonly checkEveryMs?: number;
}

export class ErrorLog {
  readonly #options: ErrorLogOptions;
  readonly #closing = new AbortController();
  /** Lines about an outage have no ids: the request or installation whose statement failed first has not caused it. */
  readonly #outsideOfRequests = AsyncLocalStorage.snapshot();
  /** Errors since the database went away; null: it is there. */
  #outageErrors: number | null = null;
  /** Until then, errors of the last outage may still be reported. */
  #explainedUntil = 0;

  constructor(options: ErrorLogOptions) {
    this.#options = options;
  }

  /** @param count occurrences of the error */
  readonly add = (error: Error, count = 1): void => {
    const { logger } = this.#options;
    if (error instanceof UnrepeatedError) logger.error({ err: error }, error.message);
    else if (this.#closing.signal.aborted || !isDatabaseUnavailable(error)) this.#write(error, count);
    else if (this.#outageErrors !== null) this.#outageErrors += count;
    else {
      this.#outageErrors = count;
      this.#outsideOfRequests(() => void this.#followOutage(error));
    }
  };

  /** Call it before the pool is closed. */
  close(): void {
    this.#closing.abort();
  }

  async #followOutage(error: Error): Promise<void> {
    const { logger, checkDatabase, checkEveryMs = CHECK_EVERY_MS } = this.#options;
    const { signal } = this.#closing;
    const startedAt = performance.now();
    const reason = await checkDatabase();
    if (reason === null || signal.aborted) {
      // Connections were lost while the database was there.
      const isExplained = performance.now() < this.#explainedUntil;
      if (!isExplained) this.#write(error, this.#outageErrors ?? 1);
      this.#outageErrors = null;
      return;
    }
    logger.error({ err: error, reason }, 'the database is unavailable; background tasks are retried until it is back');
    const reported = new Set([reason]);
    for (;;) {
      await sleep(checkEveryMs, null, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      const current = await checkDatabase();
      if (current === null) break;
      // Once in an outage, however often it alternates with another one.
      if (!reported.has(current)) logger.error({ reason: current }, 'the database is unavailable for another reason');
      reported.add(current);
    }
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    logger.warn({ errors: this.#outageErrors }, `the database is available again after ${seconds} s`);
    this.#outageErrors = null;
    this.#explainedUntil = performance.now() + REPORTED_WITHIN_MS;
  }

  #write(error: Error, count: number): void {
    const times = count > 1 ? ` (${count} times in the last minute)` : '';
    this.#options.logger.error({ err: error }, `a background task failed and will be retried${times}`);
  }
}
