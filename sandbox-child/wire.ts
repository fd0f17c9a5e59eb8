/** The child's end of the wire: JSON-RPC over descriptors 0 and 1, with no library and no stream on the way out. */
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { decodeFrame, encodeFrame, frameLength, HEADER_BYTES, type Message, refuseDeep } from './frame.ts';

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
  const allocate = (bytes: number): Buffer => (bytes <= SCRATCH_BYTES ? scratch : Buffer.allocUnsafeSlow(bytes));
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
  const length = frameLength(frame);
  try {
    for (let at = 0; at < length; ) at += writeSync(1, frame, at, length - at);
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

  /** Takes the first `bytes` of a buffer whose memory is used again after the call. */
  read(buffer: Buffer, bytes: number): void {
    if (this.#bytes > 0) this.#join(buffer, bytes);
    else this.#keep(buffer, this.#take(buffer, bytes), bytes);
  }

  #join(buffer: Buffer, bytes: number): void {
    this.#parts.push(Buffer.from(buffer.subarray(0, bytes)));
    this.#bytes += bytes;
    if (this.#bytes < this.#wanted) return;
    const whole = Buffer.concat(this.#parts);
    this.#keep(whole, this.#take(whole, whole.byteLength), whole.byteLength);
  }

  /** What is left after the last whole frame waits for the rest of its own. */
  #keep(buffer: Buffer, from: number, end: number): void {
    this.#bytes = end - from;
    if (this.#bytes === 0) {
      if (this.#parts.length > 0) this.#parts = [];
      return;
    }
    const left = Buffer.from(buffer.subarray(from, end));
    this.#parts = [left];
    this.#wanted = left.byteLength >= HEADER_BYTES ? frameLength(left) : HEADER_BYTES;
  }

  #take(buffer: Buffer, bytes: number): number {
    let at = 0;
    while (bytes - at >= HEADER_BYTES) {
      const end = at + 4 + buffer.readUInt32LE(at);
      if (end > bytes) break;
      const head = at + HEADER_BYTES;
      this.#receive(decodeFrame(buffer, head, head + buffer.readUInt32LE(at + 4), end));
      at = end;
    }
    return at;
  }
}

function readFrames(receive: (message: Message) => void): void {
  const frames = new Frames(receive);
  // One buffer for every read, instead of a stream's 64 KB for each.
  const buffer = Buffer.alloc(READ_BYTES);
  const callback = (bytes: number): boolean => {
    frames.read(buffer, bytes);
    return true;
  };
  const input = new Socket({ fd: 0, readable: true, writable: false, onread: { buffer, callback } });
  input.on('end', () => process.exit(0));
  input.on('error', () => process.exit(0));
  input.resume();
}
