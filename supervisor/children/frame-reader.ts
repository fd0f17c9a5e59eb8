/** Cuts a child's output into frames: measured before they are kept, at a bounded rate. */
import type { Readable } from 'node:stream';
import { decodeFrame, FrameError, HEADER_BYTES, type Message, refuseDeep } from '../../sandbox-child/frame.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { Allowance } from './output-token-bucket.ts';
import { awaitTurn } from './read-turns.ts';

/** How long a child that said too much is not read, milliseconds; answers to calls wait behind its own flood. */
const HUSH_MS = 100;
/**
 * What a host call takes of the allowance, bytes, whatever its size: its work is elsewhere, and has bounds of its own.
 * 400 a second are four times what a minute's quota comes to.
 */
const CALL_BYTES = 640;
/** What a log line takes at least. */
const LINE_MIN_BYTES = 128;
/**
 * Frames of one child, and bytes of them, before everybody else has a turn. A chunk of the pipe holds hundreds of small
 * ones, and ten milliseconds of work, in which no other child would be read.
 */
const TURN_FRAMES = 32;
const TURN_BYTES = 65_536;
/** Who needs longer for as much as a turn holds, milliseconds, does not crowd anybody. */
const TURN_MS = 10;
/** Frames are counted in windows of this; when one's share is used up, the pipe is left alone until the next. */
const WINDOW_MS = 100;

/** Operators' bounds of what is read from one child. */
export interface ReadBounds {
  /** Largest frame, bytes. */
  readonly frameBytes: number;
  readonly framesPerSecond: number;
  /** Of log lines and host calls, until `allow` says otherwise. */
  readonly saidBytesPerSecond: number;
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
  #allowance: Allowance;
  #hushed = false;
  #turnFrames = 0;
  #turnBytes = 0;
  #turnStarted = 0;
  #resting = false;

  /** Starts reading. `violate` is called at most once, with a reason; nothing is received after it. */
  constructor(
    input: Readable,
    receive: (message: Message) => void,
    violate: (reason: string) => void,
    { frameBytes, framesPerSecond, saidBytesPerSecond }: ReadBounds = limits,
  ) {
    this.#allowance = new Allowance(saidBytesPerSecond);
    this.#frameBytes = frameBytes;
    this.#windowFrames = Math.ceil((framesPerSecond * WINDOW_MS) / 1_000);
    this.#input = input;
    this.#receive = receive;
    this.#violate = violate;
    input.on('data', (chunk: Buffer) => this.#read(chunk));
    // A broken pipe is the end of the child, which is told apart elsewhere.
    input.on('error', () => undefined);
  }

  /** From now on what it says is taken from this. */
  allow(allowance: Allowance): void {
    this.#allowance = allowance;
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
    if (this.#heldBytes >= this.#wanted && !this.#waits) this.#cut();
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
    while (!this.#stopped && !this.#waits && chunk.byteLength - at >= HEADER_BYTES) {
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
      this.#spend(message, end - at);
      at = end;
    }
    return at;
  }

  #spend({ method }: Message, bytes: number): void {
    const cost = method === 'log' ? Math.max(bytes, LINE_MIN_BYTES) : CALL_BYTES;
    // Answers are free.
    if (method !== undefined && !this.#allowance.spend(cost)) this.#hush(HUSH_MS);
    const now = performance.now();
    this.#spendTurn(bytes, now);
    this.#frames += 1;
    if (this.#frames < this.#windowFrames) return;
    if (now < this.#windowEnds) this.#hush(this.#windowEnds - now);
    this.#windowEnds = Math.max(now, this.#windowEnds) + WINDOW_MS;
    this.#frames = 0;
  }

  #spendTurn(bytes: number, now: number): void {
    if (now - this.#turnStarted > TURN_MS) this.#startTurn(now);
    this.#turnFrames += 1;
    this.#turnBytes += bytes;
    if (this.#turnFrames >= TURN_FRAMES || this.#turnBytes >= TURN_BYTES) this.#rest();
  }

  #startTurn(now: number): void {
    this.#turnStarted = now;
    this.#turnFrames = 0;
    this.#turnBytes = 0;
  }

  /** Leaves the pipe alone for a while; what the child writes meanwhile waits in it, and then the child. */
  #hush(ms: number): void {
    if (this.#hushed) return;
    this.#hushed = true;
    this.#input.pause();
    const goOn = (): void => {
      this.#hushed = false;
      if (this.#stopped) return;
      if (this.#allowance.spend(0)) this.#goOn();
      else this.#hush(HUSH_MS);
    };
    setTimeout(goOn, ms).unref();
  }

  /** Lets the others be read before the rest of what it has said. */
  #rest(): void {
    this.#resting = true;
    this.#input.pause();
    awaitTurn(() => {
      this.#resting = false;
      this.#startTurn(performance.now());
      this.#goOn();
    });
  }

  /** Takes what is held, and then what comes. */
  #goOn(): void {
    if (!this.#stopped && !this.#waits && this.#heldBytes > 0) this.#cut();
    if (!this.#stopped && !this.#waits) this.#input.resume();
  }

  get #waits(): boolean {
    return this.#hushed || this.#resting;
  }
}
