/** The inspector's messages to and from a child, over the descriptor it has for them. */
import type { Duplex } from 'node:stream';
import { decodeText, encodeText, FrameBuffer, FrameError } from '../../../sandbox-child/frame.ts';
import { MIB } from '../../../sdk/contract/limits.ts';

/** Largest message either way, bytes: the source of a whole bundle fits, a heap snapshot comes in pieces. */
export const MESSAGE_MAX_BYTES = 16 * MIB;
/** What may wait for a child that does not read, bytes. */
const BACKLOG_MAX_BYTES = 2 * MESSAGE_MAX_BYTES;

export interface PipeHandlers {
  message(text: string): void;
  /** The child broke the rules, or does not read; nothing more is passed on. */
  violation(reason: string): void;
}

export class MessagePipe {
  readonly #stream: Duplex;
  readonly #handlers: PipeHandlers;
  readonly #frames = new FrameBuffer(MESSAGE_MAX_BYTES);
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
    this.#stream.write(encodeText(text));
    if (this.#stream.writableLength > BACKLOG_MAX_BYTES) this.#violate('it does not read what its inspector is asked');
  }

  #read(chunk: Buffer): void {
    try {
      this.#frames.push(chunk);
      const take = (): string | null => this.#frames.take(decodeText);
      for (let text = take(); text !== null && this.#open; text = take()) {
        this.#handlers.message(text);
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.#violate(`its inspector says more than ${MESSAGE_MAX_BYTES} bytes at once`);
    }
  }

  #violate(reason: string): void {
    if (!this.#open) return;
    this.close();
    this.#handlers.violation(reason);
  }
}
