/** Exchanges inspector messages with a child over a separate descriptor. */
import type { Duplex } from 'node:stream';
import { decodeText, encodeText, FrameBuffer, FrameError } from '../../../sandbox-child/frame.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { waitForLoopTurn } from '../../../service/timing/loop-turns.ts';
import { reportUnexpected } from '../child-errors.ts';

/** Largest message of a child, bytes: a bundle's whole source fits, and a heap snapshot is sent in pieces. */
const MESSAGE_MAX_BYTES = 16 * MIB;
/** Largest backlog of a child that does not read, bytes. */
const BACKLOG_MAX_BYTES = 2 * MESSAGE_MAX_BYTES;

/** Messages passed on before others have a turn. A chunk of the pipe can hold thousands. */
const TURN_MESSAGES = 32;

interface PipeHandlers {
  message(text: string): void;
  /** The child violated the protocol or does not read. No further message is passed on. */
  violation(reason: string): void;
}

let pipes = 0;

export class MessagePipe {
  readonly #stream: Duplex;
  readonly #handlers: PipeHandlers;
  readonly #frames = new FrameBuffer(MESSAGE_MAX_BYTES);
  readonly #turnKey: string;
  #open = true;
  /** The client is slow. */
  #isPaused = false;
  /** Reading waits for a turn of the loop. */
  #isScheduled = false;
  readonly #onData = (chunk: Buffer): void => {
    this.#frames.push(chunk);
    this.#readFrames();
  };

  constructor(stream: Duplex, handlers: PipeHandlers) {
    pipes += 1;
    this.#turnKey = `inspector ${pipes}`;
    this.#stream = stream;
    this.#handlers = handlers;
    stream.on('data', this.#onData);
    // A broken pipe means that the child has ended, which `Child` reports.
    stream.on('error', () => undefined);
  }

  /** Removes the previous client's breakpoints and resumes a paused handler. */
  resetSession(): void {
    this.send('');
  }

  send(text: string): void {
    if (!this.#open || this.#stream.destroyed) return;
    this.#stream.write(encodeText(text));
    if (this.#stream.writableLength > BACKLOG_MAX_BYTES) this.#violate('it does not read the inspector’s messages');
  }

  /** Stops reading until `resume`: a slow client blocks the child's writes. */
  pause(): void {
    this.#isPaused = true;
    this.#stream.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#readOn();
  }

  close(): void {
    this.#open = false;
    this.#stream.off('data', this.#onData);
    // Unread data would fill the pipe and block the child.
    this.#stream.resume();
  }

  get #mayRead(): boolean {
    return this.#open && !this.#isPaused && !this.#isScheduled;
  }

  #readFrames(): void {
    try {
      for (let messages = 0; this.#mayRead; messages += 1) {
        if (messages === TURN_MESSAGES) {
          this.#yieldTurn();
          return;
        }
        const text = this.#frames.readFrame(decodeText);
        if (text === null) return;
        if (text === '') this.#violate('its inspector sent an empty message');
        else this.#handlers.message(text);
      }
    } catch (error) {
      const isTooLarge = error instanceof FrameError;
      const reason = isTooLarge ? `a message of more than ${MESSAGE_MAX_BYTES} bytes` : reportUnexpected(error);
      this.#violate(`its inspector sent ${reason}`);
    }
  }

  #yieldTurn(): void {
    this.#isScheduled = true;
    this.#stream.pause();
    void waitForLoopTurn(this.#turnKey).then(() => {
      this.#isScheduled = false;
      this.#readOn();
    });
  }

  /** Reads the buffered frames, then resumes the pipe. */
  #readOn(): void {
    this.#readFrames();
    if (this.#mayRead) this.#stream.resume();
  }

  #violate(reason: string): void {
    if (!this.#open) return;
    this.close();
    this.#handlers.violation(reason);
  }
}
