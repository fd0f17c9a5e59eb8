/** The child's end of the wire: JSON-RPC over descriptors 0 and 1, with no library and no stream on the way out. */
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { decodeFrame, encodeFrame, HEADER_BYTES, type Message, refuseDeep } from './frame.ts';

export interface Wire {
  /**
   * Sends one message, and waits where the pipe is full: a plugin that floods its supervisor holds up itself alone.
   *
   * @throws where the value cannot be encoded; then nothing was sent
   */
  send(message: Message): void;
}

/** What is read at once; a larger frame is put together from several reads. */
const READ_BYTES = 65_536;
/** Frames up to this are written from one place, which saves an allocation for each. */
const SCRATCH_BYTES = 65_536;

/** Starts reading. `receive` is called once a message, in order; at the end of the input the process ends. */
export function openWire(receive: (message: Message) => void): Wire {
  readFrames(receive);
  const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  const allocate = (bytes: number): Buffer =>
    bytes <= SCRATCH_BYTES ? scratch.subarray(0, bytes) : Buffer.allocUnsafeSlow(bytes);
  return {
    send(message) {
      const frame = encodeFrame(message, allocate);
      refuseDeep(frame, HEADER_BYTES, HEADER_BYTES + frame.readUInt32LE(4));
      write(frame);
    },
  };
}

/** Descriptor 1 blocks. A stream would cost 10 µs and a copy. */
function write(frame: Buffer): void {
  try {
    for (let at = 0; at < frame.byteLength; ) at += writeSync(1, frame, at);
  } catch {
    // The supervisor has gone.
    process.exit(0);
  }
}

/** Cuts what arrives into messages. The supervisor's frames need no suspicion. */
class Frames {
  readonly #receive: (message: Message) => void;
  #parts: Buffer[] = [];
  #bytes = 0;
  #wanted = HEADER_BYTES;

  constructor(receive: (message: Message) => void) {
    this.#receive = receive;
  }

  /** Takes a chunk whose memory is used again after the call. */
  read(fresh: Buffer): void {
    let chunk = fresh;
    if (this.#bytes > 0) {
      this.#parts.push(Buffer.from(fresh));
      this.#bytes += fresh.byteLength;
      if (this.#bytes < this.#wanted) return;
      chunk = Buffer.concat(this.#parts);
    }
    const left = chunk.subarray(this.#take(chunk));
    this.#parts = left.byteLength > 0 ? [Buffer.from(left)] : [];
    this.#bytes = left.byteLength;
    this.#wanted = left.byteLength >= HEADER_BYTES ? 4 + left.readUInt32LE(0) : HEADER_BYTES;
  }

  #take(chunk: Buffer): number {
    let at = 0;
    while (chunk.byteLength - at >= HEADER_BYTES) {
      const end = at + 4 + chunk.readUInt32LE(at);
      if (end > chunk.byteLength) break;
      const head = at + HEADER_BYTES;
      this.#receive(decodeFrame(chunk, head, head + chunk.readUInt32LE(at + 4), end));
      at = end;
    }
    return at;
  }
}

function readFrames(receive: (message: Message) => void): void {
  const frames = new Frames(receive);
  const callback = (bytes: number, buffer: Uint8Array): boolean => {
    frames.read(Buffer.from(buffer.buffer, buffer.byteOffset, bytes));
    return true;
  };
  // One buffer for every read, instead of a stream's 64 KB for each.
  const onread = { buffer: Buffer.alloc(READ_BYTES), callback };
  const input = new Socket({ fd: 0, readable: true, writable: false, onread });
  input.on('end', () => process.exit(0));
  input.on('error', () => process.exit(0));
  input.resume();
}
