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

/** Length of the frame at the start of a buffer. */
export const frameBytes = (buffer: Buffer): number => HEADER_BYTES + buffer.readUInt32LE(0);

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
  /** Not yet taken: from `#start` to `#end` of this chunk, and then all of `#later`. */
  #chunk: Buffer = Buffer.alloc(0);
  #start = 0;
  #end = 0;
  #later: Buffer[] = [];
  #laterBytes = 0;
  /** Bytes until there is something to do: a header, or the rest of a frame. */
  #wantedBytes = HEADER_BYTES;

  /** `maxBytes`: of one frame's content. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes collected and not yet taken. */
  get bytes(): number {
    return this.#end - this.#start + this.#laterBytes;
  }

  /** Adds the first `bytes` of a chunk. */
  push(chunk: Buffer, bytes: number = chunk.byteLength): void {
    if (this.#start < this.#end) {
      this.#later.push(chunk.subarray(0, bytes));
      this.#laterBytes += bytes;
      return;
    }
    this.#chunk = chunk;
    this.#start = 0;
    this.#end = bytes;
  }

  /**
   * Takes the next frame and decodes its content; null until all of it has arrived.
   *
   * @throws FrameError as soon as a header announces too long a content, and what `decode` throws; the buffer is then of no
   *   more use
   */
  take<T>(decode: (buffer: Buffer, start: number, end: number) => T): T | null {
    if (this.bytes < this.#wantedBytes) return null;
    if (this.#laterBytes > 0) this.#join();
    const start = this.#start + HEADER_BYTES;
    const length = this.#chunk.readUInt32LE(this.#start);
    if (length > this.#maxBytes) throw new FrameError(`a frame of ${length} bytes; the limit is ${this.#maxBytes}`);
    if (start + length > this.#end) {
      this.#wantedBytes = HEADER_BYTES + length;
      return null;
    }
    this.#start = start + length;
    this.#wantedBytes = HEADER_BYTES;
    return decode(this.#chunk, start, start + length);
  }

  /** Copies what is left of the last chunk, for a caller that uses the chunk's memory again. */
  copyRest(): void {
    const last = this.#later.pop();
    if (last) this.#later.push(Buffer.from(last));
    else if (this.#start < this.#end) this.#replaceChunk(Buffer.from(this.#chunk.subarray(this.#start, this.#end)));
  }

  /** A large frame is joined once, not at every chunk of it. */
  #join(): void {
    this.#replaceChunk(Buffer.concat([this.#chunk.subarray(this.#start, this.#end), ...this.#later]));
    this.#later = [];
    this.#laterBytes = 0;
  }

  #replaceChunk(chunk: Buffer): void {
    this.#chunk = chunk;
    this.#start = 0;
    this.#end = chunk.byteLength;
  }
}
