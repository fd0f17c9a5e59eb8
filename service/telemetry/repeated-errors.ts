/** Reports an error that many requests run into once, and then once a minute with their number. */

/** An error is reported this long after it occurred, at most. Milliseconds. */
export const REPORTED_WITHIN_MS = 60_000;
/** Different errors that are counted; further ones share a count. */
const TOPICS_MAX = 20;
const OTHER = '';

interface RepeatedErrorsOptions {
  /** @param count occurrences since the last report of this error */
  report(error: Error, count: number): void;
  /** Milliseconds. */
  readonly windowMs?: number;
}

interface Topic {
  /** Not reported yet. */
  count: number;
  last: Error;
  timer: NodeJS.Timeout;
}

export class RepeatedErrors {
  readonly #options: RepeatedErrorsOptions;
  readonly #topics = new Map<string, Topic>();

  constructor(options: RepeatedErrorsOptions) {
    this.#options = options;
  }

  /** Reports the first error at once, and counts those that follow within the window. */
  readonly add = (error: Error): void => {
    const key = this.#topics.has(error.message) || this.#topics.size < TOPICS_MAX ? error.message : OTHER;
    const topic = this.#topics.get(key);
    if (topic) {
      topic.count += 1;
      topic.last = error;
      return;
    }
    this.#topics.set(key, { count: 0, last: error, timer: this.#startWindow(key) });
    this.#options.report(error, 1);
  };

  /** Reports what is counted. */
  close(): void {
    for (const { count, last, timer } of this.#topics.values()) {
      clearTimeout(timer);
      if (count > 0) this.#options.report(last, count);
    }
    this.#topics.clear();
  }

  #startWindow(key: string): NodeJS.Timeout {
    return setTimeout(() => this.#endWindow(key), this.#options.windowMs ?? REPORTED_WITHIN_MS);
  }

  #endWindow(key: string): void {
    const topic = this.#topics.get(key);
    if (!topic) return;
    if (topic.count === 0) {
      this.#topics.delete(key);
      return;
    }
    this.#options.report(topic.last, topic.count);
    topic.count = 0;
    topic.timer = this.#startWindow(key);
  }
}
