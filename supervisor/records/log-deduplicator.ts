/** What would be said with every call is said once an hour, and once a minute where it changes. */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Topics kept, a few hundred bytes each; the one said longest ago goes first. */
const TOPICS_MAX = 10_000;

export class LogDeduplicator {
  readonly #said = new Map<string, { readonly message: string; readonly at: number; unsaid: number }>();

  /** How often it was left out since it was said last; null: it is left out this time too. */
  countRepeat(topic: string, message: string, now: number): number | null {
    const known = this.#said.get(topic);
    if (known && now - known.at < (known.message === message ? HOUR_MS : MINUTE_MS)) {
      known.unsaid += 1;
      return null;
    }
    this.#said.delete(topic);
    this.#said.set(topic, { message, at: now, unsaid: 0 });
    const [oldest] = this.#said.keys();
    if (this.#said.size > TOPICS_MAX && oldest !== undefined) this.#said.delete(oldest);
    return known?.unsaid ?? 0;
  }
}
