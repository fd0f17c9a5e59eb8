/** Suppresses repeated log lines of a topic: writes one once an hour, or once a minute if its text changes. */
import { hash } from 'node:crypto';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Maximum number of topics, a few hundred bytes each; the one written longest ago is dropped. */
const TOPICS_MAX = 10_000;

export class LogDeduplicator {
  readonly #said = new Map<string, { readonly messageHash: string; readonly at: number; unsaid: number }>();

  /** How often the line was suppressed since it was last written; null: suppress it now, too. */
  countRepeat(topic: string, message: string, now: number): number | null {
    const known = this.#said.get(topic);
    // A message may have 8,192 characters.
    const messageHash = hash('sha256', message, 'base64');
    if (known && now - known.at < (known.messageHash === messageHash ? HOUR_MS : MINUTE_MS)) {
      known.unsaid += 1;
      return null;
    }
    this.#said.delete(topic);
    this.#said.set(topic, { messageHash, at: now, unsaid: 0 });
    const [oldest] = this.#said.keys();
    if (this.#said.size > TOPICS_MAX && oldest !== undefined) this.#said.delete(oldest);
    return known?.unsaid ?? 0;
  }
}
