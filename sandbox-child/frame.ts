/** Frames of a pipe, on both sides of the jail: the length of the content as u32, little endian, then the content. */

/** Bytes before the content. */
export const HEADER_BYTES = 4;
/** Longest content that a child sends: `limits.frameBytes`, repeated because the child takes no values from the SDK. */
export const FRAME_MAX_BYTES = 4_194_304;
/**
 * Longest content that a child is sent, bytes. The limit above protects the supervisor from its children; a webhook
 * request of 5 MiB has to fit the other way, with its headers.
 */
export const FRAME_TO_CHILD_MAX_BYTES = 8_388_608;

/** A frame or message that no honest peer sends. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

/** One text as a frame, for a pipe that carries only texts. */
export function encodeText(text: string): Buffer {
  const bytes = Buffer.byteLength(text);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  frame.writeUInt32LE(bytes, 0);
  frame.write(text, HEADER_BYTES);
  return frame;
}

export const decodeText = (buffer: Buffer, start: number, end: number): string => buffer.toString('utf8', start, end);

/** Collects what a pipe delivers and takes whole frames out of it. */
export class FrameBuffer {
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  /** Where the next frame starts in the first chunk. */
  #start = 0;
  #bytes = 0;
  /** Bytes until there is something to do: a header, or the rest of a frame. */
  #wantedBytes = HEADER_BYTES;

  /** `maxBytes`: of one frame's content. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes collected and not yet taken. */
  get bytes(): number {
    return this.#bytes;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.byteLength;
  }

  /**
   * Takes the next frame and decodes its content; null until all of it has arrived.
   *
   * @throws FrameError as soon as a header announces too long a content, and what `decode` throws; the buffer is then of no
   *   more use
   */
  take<T>(decode: (buffer: Buffer, start: number, end: number) => T): T | null {
    if (this.#bytes < this.#wantedBytes) return null;
    const buffer = this.#join();
    const length = buffer.readUInt32LE(this.#start);
    if (length > this.#maxBytes) throw new FrameError(`a frame of ${length} bytes; the limit is ${this.#maxBytes}`);
    const frameBytes = HEADER_BYTES + length;
    if (this.#bytes < frameBytes) {
      this.#wantedBytes = frameBytes;
      return null;
    }
    const content = decode(buffer, this.#start + HEADER_BYTES, this.#start + frameBytes);
    this.#skip(frameBytes);
    return content;
  }

  /** Copies what is left of the last chunk, for a caller that uses the chunk's memory again. */
  copyRest(): void {
    const last = this.#chunks.pop();
    if (last === undefined) return;
    const isFirst = this.#chunks.length === 0;
    this.#chunks.push(Buffer.from(isFirst ? last.subarray(this.#start) : last));
    if (isFirst) this.#start = 0;
  }

  #skip(frameBytes: number): void {
    this.#bytes -= frameBytes;
    this.#start += frameBytes;
    this.#wantedBytes = HEADER_BYTES;
    if (this.#bytes > 0) return;
    this.#chunks = [];
    this.#start = 0;
  }

  /** All that was collected, in one piece. A large frame is joined once, not at every chunk of it. */
  #join(): Buffer {
    const [first, ...rest] = this.#chunks;
    if (first && rest.length === 0) return first;
    const joined = Buffer.concat(first ? [first.subarray(this.#start), ...rest] : []);
    this.#chunks = [joined];
    this.#start = 0;
    return joined;
  }
}
