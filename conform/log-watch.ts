/** Follows the log of one installation through the deployment's stream. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from './account.ts';
import { Mismatch } from './expect.ts';

const WAIT_MS = 20_000;
/** Pause before the stream is opened again. */
const RECONNECT_MS = 500;

export interface LogLine {
  readonly id: string;
  readonly level: string;
  readonly message: string;
  // biome-ignore lint/suspicious/noExplicitAny: checks look into data of every shape
  readonly data: any;
  readonly source: string;
  readonly sessionId: string | null;
  readonly truncated: boolean;
}
type Wanted = (line: LogLine) => boolean;
type Body = NonNullable<Response['body']>;

export class LogWatch {
  readonly lines: LogLine[] = [];
  readonly #account: Account;
  readonly #path: string;
  readonly #waiting = new Set<() => void>();
  readonly #abort = new AbortController();
  /** Id of the last event. */
  #after: string | null = null;

  private constructor(account: Account, installationId: string) {
    this.#account = account;
    this.#path = `/plugin-logs/stream?installationId=${installationId}`;
  }

  /** Resolves when the stream is open: every later line is seen. */
  static async open(account: Account, installationId: string): Promise<LogWatch> {
    const watch = new LogWatch(account, installationId);
    const body = await watch.#connect();
    watch.#follow(body).catch(() => undefined);
    return watch;
  }

  /** Waits for a line. @throws Mismatch when it does not come */
  find(what: string, wanted: Wanted): Promise<LogLine> {
    const { promise, resolve, reject } = Promise.withResolvers<LogLine>();
    const look = (): void => {
      const line = this.lines.find(wanted);
      if (line) resolve(line);
    };
    const timer = setTimeout(() => {
      const seen = this.lines.slice(-5).map(({ message }) => message.slice(0, 80));
      reject(
        new Mismatch(`the log has no line of ${what} after ${WAIT_MS / 1000} s; the last ones are ${seen.join(' | ')}`),
      );
    }, WAIT_MS);
    // The stream keeps the process alive until the run is closed.
    timer.unref();
    this.#waiting.add(look);
    look();
    return promise.finally(() => {
      clearTimeout(timer);
      this.#waiting.delete(look);
    });
  }

  close(): void {
    this.#abort.abort();
  }

  async #connect(): Promise<Body> {
    const response = await this.#account.openStream(this.#path, this.#abort.signal, this.#after);
    if (response.status !== 200 || !response.body) throw new Mismatch(`the log stream answered ${response.status}`);
    return response.body;
  }

  /**
   * Continues after the last event when the stream ends: a deployment ends it after some minutes.
   *
   * @throws Mismatch if the stream is refused, because the installation is gone
   */
  async #follow(first: Body): Promise<void> {
    for (let body: Body | null = first; ; body = await this.#connect().catch(ignoreUnlessRefused)) {
      if (body) await this.#read(body).catch(() => undefined);
      await sleep(RECONNECT_MS, undefined, { signal: this.#abort.signal });
    }
  }

  async #read(body: Body): Promise<void> {
    let text = '';
    for await (const chunk of decode(body)) {
      text += chunk;
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const event = text.slice(0, end);
        text = text.slice(end + 2);
        this.#after = /^id: ?(.*)$/m.exec(event)?.[1] ?? this.#after;
        const data = /^data: ?(.*)$/m.exec(event)?.[1];
        if (data === undefined) continue;
        this.lines.push(JSON.parse(data));
        for (const look of this.#waiting) look();
      }
    }
  }
}

function ignoreUnlessRefused(error: unknown): null {
  if (error instanceof Mismatch) throw error;
  return null;
}

/** Reads a stream until it contains the words. Returns the text that came. */
export async function readUntil({ body }: Response, words: string): Promise<string> {
  let text = '';
  if (!body) return text;
  for await (const chunk of decode(body)) {
    text += chunk;
    if (text.includes(words)) break;
  }
  return text;
}

/** The text of a stream, piece by piece. */
async function* decode(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  for await (const chunk of body) yield decoder.decode(chunk, { stream: true });
}
