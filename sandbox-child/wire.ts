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

function readFrames(receive: (message: Message) => void): void {
  const take = (chunk: Buffer): number => {
    let at = 0;
    while (chunk.byteLength - at >= HEADER_BYTES) {
      const end = at + 4 + chunk.readUInt32LE(at);
      if (end > chunk.byteLength) break;
      const head = at + HEADER_BYTES;
      receive(decodeFrame(chunk, head, head + chunk.readUInt32LE(at + 4), end));
      at = end;
    }
    return at;
  };
  const parts: Buffer[] = [];
  let partial = 0;
  let wanted = HEADER_BYTES;
  const onread = (bytes: number, buffer: Uint8Array): boolean => {
    const fresh = Buffer.from(buffer.buffer, buffer.byteOffset, bytes);
    const whole = partial === 0 ? fresh : null;
    if (!whole) {
      parts.push(Buffer.from(fresh));
      partial += bytes;
      if (partial < wanted) return true;
    }
    const chunk = whole ?? Buffer.concat(parts);
    const used = take(chunk);
    const held = chunk.subarray(used);
    parts.length = 0;
    partial = held.byteLength;
    // The read buffer is used again at once, so what is left is copied.
    if (partial > 0) parts.push(Buffer.from(held));
    wanted = partial >= HEADER_BYTES ? 4 + held.readUInt32LE(0) : HEADER_BYTES;
    return true;
  };
  const options = {
    fd: 0,
    readable: true,
    writable: false,
    onread: { buffer: Buffer.alloc(READ_BYTES), callback: onread },
  };
  const input = new Socket(options);
  input.on('end', () => process.exit(0));
  input.on('error', () => process.exit(0));
  input.resume();
}
