/** Suppresses repeated log lines of a topic: writes one once an hour, or once a minute if its text changes. */
import { hash } from 'node:crypto';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Maximum number of topics, a few hundred bytes each; the one written longest ago is dropped. */
const TOPICS_MAX = 10_000;

export class LogDeduplicator {
  readonly #written = new Map<string, { readonly messageHash: string; readonly at: number; suppressed: number }>();

  /** Returns how often the line was suppressed since it was last written. Null: the caller must suppress it now, too. */
  countRepeat(topic: string, message: string, now: number): number | null {
    const known = this.#written.get(topic);
    // The hash is kept, because a message may have 8,192 characters.
    const messageHash = hash('sha256', message, 'base64');
    if (known && now - known.at < (known.messageHash === messageHash ? HOUR_MS : MINUTE_MS)) {
      known.suppressed += 1;
      return null;
    }
    this.#written.delete(topic);
    this.#written.set(topic, { messageHash, at: now, suppressed: 0 });
    const [oldest] = this.#written.keys();
    if (this.#written.size > TOPICS_MAX && oldest !== undefined) this.#written.delete(oldest);
    return known?.suppressed ?? 0;
  }
}
