/** Reads a child's messages: each is measured before it is kept and checked before it is passed on, at a bounded rate. */
import type { Readable } from 'node:stream';
import { AbstractMessageReader, type DataCallback, type Disposable, type Message } from 'vscode-jsonrpc';
import { FrameBuffer, FrameError } from '../../sandbox-child/frame.ts';
import { decodeUntrusted } from '../../sandbox-child/message.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { perSecond, TokenBucket } from '../../service/timing/token-bucket.ts';
import { checkChildMessage } from './child-message.ts';
import { scheduleRead } from './read-scheduler.ts';

/** How long a child is not read once its output bucket is empty, milliseconds. Its responses wait behind its own flood. */
const EMPTY_BUCKET_PAUSE_MS = 100;
/**
 * What a host call takes from the bucket, bytes, whatever its size: its work is elsewhere, and has bounds of its own. 400 a
 * second are four times what a minute's quota comes to.
 */
const CALL_BYTES = 640;
/** What a log line takes at least. */
const LINE_MIN_BYTES = 128;
/**
 * What is read of one child before the others are read: a chunk of the pipe holds hundreds of small messages and ten
 * milliseconds of work.
 */
const TURN_MESSAGES = 32;
const TURN_BYTES = 65_536;
/** A child that takes longer than this to write as much crowds nobody out. Milliseconds. */
const TURN_MS = 10;
/** Messages are counted in windows of this; once one's share is used up, the pipe is not read until the next one. */
const WINDOW_MS = 100;

/** Operators' bounds of what is read from one child. */
export interface ReadBounds {
  /** Largest message, bytes. */
  readonly frameBytes: number;
  readonly framesPerSecond: number;
  /** Of log lines and host calls, until `chargeOutputTo` names a bucket. */
  readonly outputBytesPerSecond: number;
}

export class ChildMessageReader extends AbstractMessageReader {
  readonly #input: Readable;
  readonly #lastRequestId: () => number;
  readonly #onViolation: (reason: string) => void;
  readonly #frames: FrameBuffer;
  readonly #windowMessages: number;
  #onMessage: DataCallback = () => undefined;
  #output: TokenBucket;
  #isStopped = false;
  /** Not read: it has used up its bucket or its window. */
  #isPaused = false;
  /** Not read: the others are first. */
  #isScheduled = false;
  #messagesInWindow = 0;
  #windowEndsAt = 0;
  #messagesInTurn = 0;
  #bytesInTurn = 0;
  #turnStartedAt = 0;

  /**
   * @param lastRequestId of the requests sent to the child
   * @param onViolation called once at most; nothing is passed on after it
   */
  constructor(
    input: Readable,
    lastRequestId: () => number,
    onViolation: (reason: string) => void,
    { frameBytes, framesPerSecond, outputBytesPerSecond }: ReadBounds = limits,
  ) {
    super();
    this.#input = input;
    this.#lastRequestId = lastRequestId;
    this.#onViolation = onViolation;
    this.#frames = new FrameBuffer(frameBytes);
    this.#windowMessages = Math.ceil((framesPerSecond * WINDOW_MS) / 1_000);
    this.#output = new TokenBucket(perSecond(outputBytesPerSecond));
  }

  /** From now on the child's output is charged to this bucket. */
  chargeOutputTo(bucket: TokenBucket): void {
    this.#output = bucket;
  }

  listen(onMessage: DataCallback): Disposable {
    this.#onMessage = onMessage;
    this.#input.on('data', (chunk: Buffer) => {
      this.#frames.push(chunk);
      this.#readFrames();
    });
    // A broken pipe is the end of the child, which is reported elsewhere.
    this.#input.on('error', () => undefined);
    return this;
  }

  /** Reads no more. The child's writes wait in the pipe until the child is ended. */
  override dispose(): void {
    super.dispose();
    this.#isStopped = true;
    this.#input.removeAllListeners('data');
    this.#input.pause();
  }

  get #mayRead(): boolean {
    return !(this.#isStopped || this.#isPaused || this.#isScheduled);
  }

  /** Passes on the whole messages that have arrived, as far as the bounds go. */
  #readFrames(): void {
    try {
      while (this.#mayRead) {
        const bytesBefore = this.#frames.bytes;
        const decoded = this.#frames.take(decodeUntrusted);
        if (decoded === null) return;
        const message = checkChildMessage(decoded, this.#lastRequestId());
        this.#onMessage(message);
        this.#charge(message, bytesBefore - this.#frames.bytes);
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.dispose();
      this.#onViolation(error.message);
    }
  }

  #charge(message: Message & { readonly method?: unknown }, bytes: number): void {
    const { method } = message;
    const cost = method === 'log' ? Math.max(bytes, LINE_MIN_BYTES) : CALL_BYTES;
    // Responses cost nothing.
    if (method !== undefined && !this.#output.overdraw(cost)) this.#pause(EMPTY_BUCKET_PAUSE_MS);
    const now = performance.now();
    this.#chargeTurn(bytes, now);
    this.#messagesInWindow += 1;
    if (this.#messagesInWindow < this.#windowMessages) return;
    if (now < this.#windowEndsAt) this.#pause(this.#windowEndsAt - now);
    this.#windowEndsAt = Math.max(now, this.#windowEndsAt) + WINDOW_MS;
    this.#messagesInWindow = 0;
  }

  #chargeTurn(bytes: number, now: number): void {
    if (now - this.#turnStartedAt > TURN_MS) this.#startTurn(now);
    this.#messagesInTurn += 1;
    this.#bytesInTurn += bytes;
    if (this.#messagesInTurn >= TURN_MESSAGES || this.#bytesInTurn >= TURN_BYTES) this.#yieldTurn();
  }

  #startTurn(now: number): void {
    this.#turnStartedAt = now;
    this.#messagesInTurn = 0;
    this.#bytesInTurn = 0;
  }

  /** Stops reading for a while. What the child writes meanwhile waits in its pipe, and then the child. */
  #pause(ms: number): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#input.pause();
    const resume = (): void => {
      this.#isPaused = false;
      if (this.#isStopped) return;
      if (this.#output.overdraw(0)) this.#resume();
      else this.#pause(EMPTY_BUCKET_PAUSE_MS);
    };
    setTimeout(resume, ms).unref();
  }

  /** Lets the other children be read before the rest of what this one has written. */
  #yieldTurn(): void {
    this.#isScheduled = true;
    this.#input.pause();
    scheduleRead(() => {
      this.#isScheduled = false;
      this.#startTurn(performance.now());
      this.#resume();
    });
  }

  /** Reads what has arrived, and then what comes. */
  #resume(): void {
    this.#readFrames();
    if (this.#mayRead) this.#input.resume();
  }
}
