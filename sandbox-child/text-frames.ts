/** How texts travel between an inspected child and its supervisor: u32 length, then UTF-8. An empty one is a text too. */
import { FrameError } from './frame.ts';

const HEADER_BYTES = 4;

export function encodeText(text: string): Buffer {
  const bytes = Buffer.byteLength(text);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  frame.writeUInt32LE(bytes, 0);
  frame.write(text, HEADER_BYTES);
  return frame;
}

export class TextReader {
  readonly #most: number;
  #parts: Buffer[] = [];
  #bytes = 0;

  /** `most`: bytes of one text. */
  constructor(most: number) {
    this.#most = most;
  }

  /**
   * The texts that a chunk completes, one by one.
   *
   * @throws FrameError before a longer text than may be, and then it is of no more use
   */
  *read(chunk: Buffer): Generator<string> {
    this.#parts.push(chunk);
    this.#bytes += chunk.byteLength;
    while (this.#bytes >= HEADER_BYTES) {
      const length = this.#joined(HEADER_BYTES).readUInt32LE(0);
      if (length > this.#most) throw new FrameError(`a text of ${length} bytes; the limit is ${this.#most}`);
      const end = HEADER_BYTES + length;
      if (this.#bytes < end) return;
      const whole = this.#joined(end);
      this.#parts = [whole.subarray(end)];
      this.#bytes -= end;
      yield whole.toString('utf8', HEADER_BYTES, end);
    }
  }

  /** The first part, grown to so many bytes at least. */
  #joined(bytes: number): Buffer {
    const [first] = this.#parts;
    if (first && first.byteLength >= bytes) return first;
    const whole = Buffer.concat(this.#parts);
    this.#parts = [whole];
    return whole;
  }
}
