/** Splits the bytes of a stream into lines that end with `\n` or `\r\n`. */
import type { Readable } from 'node:stream';

/** `node:readline` also ends a line at U+2028 and U+2029, which a line of JSON may contain. */
export class LineSplitter {
  readonly #decoder = new TextDecoder();
  /** The parts of the line whose end is still to come. */
  readonly #parts: string[] = [];

  /** Yields the lines that end in these bytes. */
  *push(bytes: Uint8Array): Generator<string> {
    const text = this.#decoder.decode(bytes, { stream: true });
    let start = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      this.#parts.push(text.slice(start, end));
      start = end + 1;
      yield this.#takeLine();
    }
    if (start < text.length) this.#parts.push(text.slice(start));
  }

  /** Yields the last line if the stream has ended without a line break. */
  *end(): Generator<string> {
    this.#parts.push(this.#decoder.decode());
    const line = this.#takeLine();
    if (line !== '') yield line;
  }

  #takeLine(): string {
    return this.#parts.splice(0).join('').replace(/\r$/, '');
  }
}

/** Calls `onLine` with each line of the stream, before the stream emits `end`. */
export function splitLines(input: Readable, onLine: (line: string) => void): void {
  const splitter = new LineSplitter();
  input.on('data', (bytes: Buffer) => {
    for (const line of splitter.push(bytes)) onLine(line);
  });
  input.on('end', () => {
    for (const line of splitter.end()) onLine(line);
  });
}
