/** The child's end of the wire: JSON-RPC over descriptors 0 and 1, with no library and no stream on the way out. */
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { decodeFrame, encodeFrame, HEADER_BYTES, type Message } from './frame.ts';

export interface Wire {
  /** @throws where the value cannot be encoded; then nothing was sent */
  send(message: Message): void;
  /** Like `send`, but gives the message up where the supervisor is not keeping up. False: given up. */
  offer(message: Message): boolean;
}

/** What is read at once; a larger frame is put together from several reads. */
const READ_BYTES = 65_536;
/** Above this, `offer` gives up: logs must not fill the heap while the supervisor holds its reading back. */
const OFFER_BACKLOG_BYTES = 1_048_576;

/** Starts reading. `receive` is called once a message, in order; at the end of the input the process ends. */
export function openWire(receive: (message: Message) => void): Wire {
  readFrames(receive);
  const backlog: Buffer[] = [];
  let waiting = 0;
  const flush = (): void => {
    for (let frame = backlog.shift(); frame; frame = backlog.shift()) {
      waiting -= frame.byteLength;
      const rest = writeSome(frame);
      if (rest) {
        backlog.unshift(rest);
        waiting += rest.byteLength;
        setTimeout(flush, 1);
        return;
      }
    }
  };
  const send = (message: Message): void => {
    const frame = encodeFrame(message);
    const rest = backlog.length > 0 ? frame : writeSome(frame);
    if (!rest) return;
    if (backlog.push(rest) === 1) setTimeout(flush, 1);
    waiting += rest.byteLength;
  };
  return {
    send,
    offer(message) {
      if (waiting > OFFER_BACKLOG_BYTES) return false;
      send(message);
      return true;
    },
  };
}

/** Writes at once what the pipe takes, and answers the rest. A stream would cost 10 µs and a copy. */
function writeSome(frame: Buffer): Buffer | null {
  let at = 0;
  try {
    while (at < frame.byteLength) at += writeSync(1, frame, at);
    return null;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'EAGAIN') return frame.subarray(at);
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
