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
  /** Buffered data is from `#start` to `#end`. */
  #chunk: Buffer = Buffer.alloc(0);
  #start = 0;
  #end = 0;
  /** Whether the chunk was allocated here, so that more data may be added to it. */
  #isOwn = false;
  /** Bytes needed before a frame can be decoded: a header, or a whole frame. */
  #wantedBytes = HEADER_BYTES;

  /** `maxBytes`: longest content of a frame. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Buffered bytes. */
  get bytes(): number {
    return this.#end - this.#start;
  }

  /** Adds the first `bytes` of a chunk. */
  push(chunk: Buffer, bytes: number = chunk.byteLength): void {
    if (this.#start === this.#end) {
      this.#chunk = chunk;
      this.#start = 0;
      this.#end = bytes;
      this.#isOwn = false;
      return;
    }
    // Copied: a chunk costs hundreds of bytes besides its data, and the other side may write single bytes.
    if (!this.#isOwn || this.#end + bytes > this.#chunk.byteLength)
      this.#moveTo(this.#findCapacity(this.bytes + bytes));
    chunk.copy(this.#chunk, this.#end, 0, bytes);
    this.#end += bytes;
  }

  /**
   * Returns the length of the next frame's content, bytes. Null until the whole frame has arrived.
   *
   * @throws FrameError if its header announces too long a content. The buffer is unusable afterwards
   */
  findNextLength(): number | null {
    if (this.bytes < this.#wantedBytes) return null;
    const length = this.#chunk.readUInt32LE(this.#start);
    if (length > this.#maxBytes) throw new FrameError(`a frame of ${length} bytes; the limit is ${this.#maxBytes}`);
    this.#wantedBytes = HEADER_BYTES + length;
    return this.bytes < this.#wantedBytes ? null : length;
  }

  /**
   * Removes the next frame and decodes its content. Returns null until the whole frame has arrived.
   *
   * @throws what `findNextLength` and `decode` throw. The buffer is unusable afterwards
   */
  readFrame<T>(decode: (buffer: Buffer, start: number, end: number) => T): T | null {
    const length = this.findNextLength();
    if (length === null) return null;
    const start = this.#start + HEADER_BYTES;
    this.#start = start + length;
    this.#wantedBytes = HEADER_BYTES;
    return decode(this.#chunk, start, start + length);
  }

  /** Copies the data of the last chunk, for a caller that reuses the chunk's memory. */
  copyRest(): void {
    if (!this.#isOwn && this.#start < this.#end) this.#moveTo(this.bytes);
  }

  /** Doubles, so that each byte is copied twice at most on average. It does not trust the header: the frame may never come. */
  #findCapacity(neededBytes: number): number {
    return Math.max(neededBytes, Math.min(2 * neededBytes, this.#wantedBytes));
  }

  #moveTo(capacity: number): void {
    const own = Buffer.allocUnsafeSlow(capacity);
    this.#end = this.#chunk.copy(own, 0, this.#start, this.#end);
    this.#chunk = own;
    this.#start = 0;
    this.#isOwn = true;
  }
}
