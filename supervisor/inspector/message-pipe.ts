/** The inspector's messages to and from a child, over the descriptor it has for them: u32 length, then JSON. */
import type { Duplex } from 'node:stream';
import { MIB } from '../../sdk/limits.ts';

/** Largest message either way, bytes: the source of a whole bundle fits, a heap snapshot comes in pieces. */
export const MESSAGE_MAX_BYTES = 16 * MIB;
/** What may wait for a child that does not read, bytes. */
const BACKLOG_MAX_BYTES = 2 * MESSAGE_MAX_BYTES;
const HEADER_BYTES = 4;

export interface PipeHandlers {
  message(text: string): void;
  /** The child broke the rules, or does not read; nothing more is passed on. */
  violation(reason: string): void;
}

export class MessagePipe {
  readonly #stream: Duplex;
  readonly #handlers: PipeHandlers;
  #parts: Buffer[] = [];
  #bytes = 0;
  #open = true;
  readonly #onData = (chunk: Buffer): void => this.#read(chunk);

  constructor(stream: Duplex, handlers: PipeHandlers) {
    this.#stream = stream;
    this.#handlers = handlers;
    stream.on('data', this.#onData);
    // A broken pipe is the end of the child, which is told elsewhere.
    stream.on('error', () => undefined);
  }

  /** Forgets what the client before did: its breakpoints go, and a paused handler runs on. */
  begin(): void {
    this.#write('');
  }

  send(text: string): void {
    this.#write(text);
  }

  /** Reads no more until `resume`, where the client is slow: the child then waits. */
  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    if (this.#open) this.#stream.resume();
  }

  close(): void {
    this.#open = false;
    this.#stream.off('data', this.#onData);
    // What it still says is for nobody, and must not fill the pipe.
    this.#stream.resume();
  }

  #write(text: string): void {
    if (!this.#open || this.#stream.destroyed) return;
    const bytes = Buffer.byteLength(text);
    const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
    frame.writeUInt32LE(bytes, 0);
    frame.write(text, HEADER_BYTES);
    this.#stream.write(frame);
    if (this.#stream.writableLength > BACKLOG_MAX_BYTES) this.#violate('it does not read what its inspector is asked');
  }

  #read(chunk: Buffer): void {
    this.#parts.push(chunk);
    this.#bytes += chunk.byteLength;
    while (this.#open && this.#bytes >= HEADER_BYTES) {
      const first = this.#joined(HEADER_BYTES);
      const length = first.readUInt32LE(0);
      if (length > MESSAGE_MAX_BYTES) this.#violate(`its inspector says more than ${MESSAGE_MAX_BYTES} bytes at once`);
      const end = HEADER_BYTES + length;
      if (!this.#open || this.#bytes < end) return;
      const whole = this.#joined(end);
      this.#parts = [whole.subarray(end)];
      this.#bytes -= end;
      this.#handlers.message(whole.toString('utf8', HEADER_BYTES, end));
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

  #violate(reason: string): void {
    if (!this.#open) return;
    this.close();
    this.#handlers.violation(reason);
  }
}
