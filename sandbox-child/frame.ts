/** Frames of the pipes between supervisor and child: the length of the content as little-endian u32, then the content. */

/** Bytes before the content. */
export const HEADER_BYTES = 4;
/** Longest content that a child sends: `limits.frameBytes`, repeated because the child imports only types from the SDK. */
export const FRAME_MAX_BYTES = 4_194_304;
/**
 * Longest content sent to a child, bytes. Larger than the limit above, which protects the supervisor: a webhook request of
 * 5 MiB with its headers must fit.
 */
export const FRAME_TO_CHILD_MAX_BYTES = 8_388_608;

/** A frame or message that violates the protocol. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

/** Returns the length of the frame at the start of a buffer. */
export const frameBytes = (buffer: Buffer): number => HEADER_BYTES + buffer.readUInt32LE(0);

/** Encodes a text as a frame, for the inspector's pipe. */
export function encodeText(text: string): Buffer {
  const bytes = Buffer.byteLength(text);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  frame.writeUInt32LE(bytes, 0);
  frame.write(text, HEADER_BYTES);
  return frame;
}

export const decodeText = (buffer: Buffer, start: number, end: number): string => buffer.toString('utf8', start, end);

/** Buffers the chunks of a pipe and splits them into frames. */
export class FrameBuffer {
  readonly #maxBytes: number;
  /** Buffered data: from `#start` to `#end` of this chunk, followed by all of `#later`. */
  #chunk: Buffer = Buffer.alloc(0);
  #start = 0;
  #end = 0;
  #later: Buffer[] = [];
  #laterBytes = 0;
  /** Bytes needed before a frame can be decoded: a header, or a whole frame. */
  #wantedBytes = HEADER_BYTES;

  /** `maxBytes`: longest content of a frame. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Buffered bytes. */
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
   * Removes the next frame and decodes its content. Returns null until the whole frame has arrived.
   *
   * @throws FrameError if a header announces too long a content, and what `decode` throws. The buffer is unusable afterwards
   */
  readFrame<T>(decode: (buffer: Buffer, start: number, end: number) => T): T | null {
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

  /** Copies the rest of the last chunk, for a caller that reuses the chunk's memory. */
  copyRest(): void {
    const last = this.#later.pop();
    if (last) this.#later.push(Buffer.from(last));
    else if (this.#start < this.#end) this.#replaceChunk(Buffer.from(this.#chunk.subarray(this.#start, this.#end)));
  }

  /** Joins the chunks. Called once per frame, not per chunk, so that a large frame is copied once. */
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
