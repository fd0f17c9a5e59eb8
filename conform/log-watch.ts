/** Follows the log of one installation through the deployment's stream. */
import type { Account } from './account.ts';
import { Mismatch } from './expect.ts';

const WAIT_MS = 20_000;

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

export class LogWatch {
  readonly lines: LogLine[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #abort = new AbortController();

  /** Resolves when the stream is open: every later line is seen. */
  static async open(account: Account, installationId: string): Promise<LogWatch> {
    const watch = new LogWatch();
    const path = `/plugin-logs/stream?installationId=${installationId}`;
    const response = await account.openStream(path, watch.#abort.signal);
    if (response.status !== 200 || !response.body) throw new Mismatch(`the log stream answered ${response.status}`);
    watch.#read(response.body).catch(() => undefined);
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

  async #read(body: NonNullable<Response['body']>): Promise<void> {
    let text = '';
    for await (const chunk of decode(body)) {
      text += chunk;
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const data = /^data: ?(.*)$/m.exec(text.slice(0, end))?.[1];
        text = text.slice(end + 2);
        if (data === undefined) continue;
        this.lines.push(JSON.parse(data));
        for (const look of this.#waiting) look();
      }
    }
  }
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
