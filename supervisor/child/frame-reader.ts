/** Cuts a child's output into frames: measured before they are kept, at a bounded rate. */
import type { Readable } from 'node:stream';
import { decodeFrame, FrameError, HEADER_BYTES, type Message, refuseDeep } from '../../sandbox-child/frame.ts';
import { limits } from '../../sdk/limits.ts';

/**
 * Requests and notices of one child at once, and a second from then on: what its log lines and host calls may be, twice.
 * One that says more is not read until it may again, so a flood costs the supervisor next to nothing. Answers to calls
 * wait behind its own flood, and nobody else's.
 */
const ASKS_BURST = 500;
const ASKS_PER_SECOND = (2 * (limits.hostCallsPerMinute + limits.logLinesPerMinute)) / 60;
/** How long a child that said too much is not read, milliseconds: one look instead of one for each frame. */
const HUSH_MS = 100;
/**
 * Frames of one child before everybody else has a turn. A chunk of the pipe holds hundreds of small ones, and ten
 * milliseconds of work, in which no other child would be read.
 */
const FRAMES_A_TURN = 32;
/** Frames are counted in windows of this; when one's share is used up, the pipe is left alone until the next. */
const WINDOW_MS = 100;

/** Operators' bounds of what is read from one child. */
export interface ReadBounds {
  /** Largest frame, bytes. */
  readonly frameBytes: number;
  readonly framesPerSecond: number;
}

export class FrameReader {
  readonly #input: Readable;
  readonly #receive: (message: Message) => void;
  readonly #violate: (reason: string) => void;
  readonly #frameBytes: number;
  readonly #windowFrames: number;
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** Bytes until there is something to do: a header, or the rest of a frame. */
  #wanted = HEADER_BYTES;
  #stopped = false;
  #frames = 0;
  #windowEnds = 0;
  #asks = ASKS_BURST;
  #askedAt = 0;
  #hushed = false;
  /** Frames since somebody else had a turn. */
  #turn = 0;
  #resting = false;

  /** Starts reading. `violate` is called at most once, with a reason; nothing is received after it. */
  constructor(
    input: Readable,
    receive: (message: Message) => void,
    violate: (reason: string) => void,
    { frameBytes, framesPerSecond }: ReadBounds = limits,
  ) {
    this.#frameBytes = frameBytes;
    this.#windowFrames = Math.ceil((framesPerSecond * WINDOW_MS) / 1_000);
    this.#input = input;
    this.#receive = receive;
    this.#violate = violate;
    input.on('data', (chunk: Buffer) => this.#read(chunk));
    // A broken pipe is the end of the child, which is told apart elsewhere.
    input.on('error', () => undefined);
  }

  /** Reads no more. The child's writes then wait in the pipe, until it is ended. */
  stop(): void {
    this.#stopped = true;
    this.#held = [];
    this.#input.removeAllListeners('data');
    this.#input.pause();
  }

  #read(fresh: Buffer): void {
    if (this.#stopped) return;
    this.#held.push(fresh);
    this.#heldBytes += fresh.byteLength;
    // A large frame is put together once, not at every read.
    if (this.#heldBytes >= this.#wanted && !this.#resting) this.#cut();
  }

  /** Receives what is whole of what is held, as far as its turn goes. */
  #cut(): void {
    const [only] = this.#held;
    const chunk = only && this.#held.length === 1 ? only : Buffer.concat(this.#held);
    try {
      const used = this.#take(chunk);
      const left = used === chunk.byteLength ? null : chunk.subarray(used);
      this.#held = left ? [left] : [];
      this.#heldBytes = left?.byteLength ?? 0;
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.stop();
      this.#violate(error.message);
    }
  }

  /** Receives the whole frames at the start of a chunk and answers how many bytes they had. */
  #take(chunk: Buffer): number {
    let at = 0;
    this.#wanted = HEADER_BYTES;
    while (!this.#stopped && !this.#resting && chunk.byteLength - at >= HEADER_BYTES) {
      const rest = chunk.readUInt32LE(at);
      const head = chunk.readUInt32LE(at + 4);
      if (rest > this.#frameBytes) throw new FrameError(`a frame of ${rest} bytes; the limit is ${this.#frameBytes}`);
      if (head + 4 > rest) throw new FrameError('a frame shorter than its head');
      const end = at + 4 + rest;
      if (end > chunk.byteLength) {
        this.#wanted = end - at;
        break;
      }
      const start = at + HEADER_BYTES;
      refuseDeep(chunk, start, start + head);
      const message = decodeFrame(chunk, start, start + head, end);
      this.#receive(message);
      this.#spend(message);
      at = end;
    }
    return at;
  }

  #spend({ method }: Message): void {
    if (method !== undefined) this.#spendAsk();
    this.#turn += 1;
    if (this.#turn >= FRAMES_A_TURN) this.#rest();
    this.#frames += 1;
    if (this.#frames < this.#windowFrames) return;
    const now = performance.now();
    if (now < this.#windowEnds) this.#hush(this.#windowEnds - now);
    this.#windowEnds = Math.max(now, this.#windowEnds) + WINDOW_MS;
    this.#frames = 0;
  }

  #spendAsk(): void {
    this.#asks -= 1;
    if (this.#asks > 0) return;
    const now = performance.now();
    this.#asks = Math.min(ASKS_BURST, this.#asks + ((now - this.#askedAt) / 1_000) * ASKS_PER_SECOND);
    this.#askedAt = now;
    if (this.#asks <= 0) this.#hush(HUSH_MS);
  }

  /** Leaves the pipe alone for a while; what the child writes meanwhile waits in it, and then the child. */
  #hush(ms: number): void {
    if (this.#hushed) return;
    this.#hushed = true;
    this.#input.pause();
    const goOn = (): void => {
      this.#hushed = false;
      this.#resume();
    };
    setTimeout(goOn, ms).unref();
  }

  /** Lets the others be read before the rest of what it has said. */
  #rest(): void {
    this.#resting = true;
    this.#input.pause();
    setImmediate(() => {
      this.#resting = false;
      this.#turn = 0;
      if (this.#stopped) return;
      if (this.#heldBytes > 0) this.#cut();
      if (!this.#resting) this.#resume();
    });
  }

  #resume(): void {
    if (!this.#stopped && !this.#hushed && !this.#resting) this.#input.resume();
  }
}
