/** Reads a child's messages at a bounded rate. Bounds each before it is buffered, and checks it before it is passed on. */
import type { Readable } from 'node:stream';
import { AbstractMessageReader, type DataCallback, type Disposable, type Message } from 'vscode-jsonrpc';
import { FrameBuffer, FrameError } from '../../sandbox-child/frame.ts';
import { decodeUntrusted } from '../../sandbox-child/message.ts';
import { limits } from '../../sdk/contract/limits.ts';
import type { HostCallName } from '../../sdk/contract/protocol.ts';
import { unstalledNow } from '../../service/timing/loop-stalls.ts';
import { COSTLY_BYTES, waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import { perSecond, TokenBucket } from '../../service/timing/token-bucket.ts';
import { reportUnexpected } from './child-errors.ts';
import { checkChildMessage, PROGRESS_METHOD } from './child-message.ts';
import { admitText } from './child-text.ts';

/** Pause of reading when the output bucket is empty, milliseconds. It also delays the child's own responses. */
const EMPTY_BUCKET_PAUSE_MS = 100;
/** Minimum cost of a host call in the output bucket, bytes. 400 calls a second are four times what the quota per minute allows. */
const CALL_MIN_BYTES = 640;
/** Minimum cost of a log line, bytes. */
const LINE_MIN_BYTES = 128;
/** Minimum cost of a delta, bytes: allows 2,048 a second. */
const DELTA_MIN_BYTES = 128;
/**
 * Bytes of a host call or delta that cost as much as one byte of output: one message of the largest size takes a second's output.
 * The costliest such message takes 100 ms to decode, check and digest, which is a tenth of the event loop. The work of the call
 * has limits of its own.
 */
const MESSAGE_BYTES_PER_BYTE = 16;
/**
 * The same for the body in `secrets.verify`: it is copied and digested but not decoded, 5 ms for the largest, and not stored. Webhooks are
 * verified with their bodies, and anybody who knows an address can send large ones.
 */
const VERIFIED_BYTES_PER_BYTE = 256;
const VERIFY: HostCallName = 'secrets.verify';
/**
 * Messages and bytes read from one child before other children are read. A chunk of the pipe can hold hundreds of small
 * messages, ten milliseconds of work.
 */
const TURN_MESSAGES = 32;
const TURN_BYTES = 65_536;
/** A turn's counts are reset after this time: a child that writes more slowly never has to wait for others. Milliseconds. */
const TURN_MS = 10;
/** Length of a rate-limit window, milliseconds. When a window's messages are used up, reading pauses until the next one. */
const WINDOW_MS = 100;

/** Limits of what is read from one child, set by the operator. */
export interface ReadBounds {
  /** Largest message, bytes. */
  readonly frameBytes: number;
  readonly framesPerSecond: number;
  /** Rate of log lines and host calls, until `chargeOutputTo` sets a shared bucket. */
  readonly outputBytesPerSecond: number;
}

let readers = 0;

interface PluginMessage extends Message {
  readonly method?: unknown;
  readonly params?: unknown;
}

function findCost({ method, params }: PluginMessage, bytes: number): number {
  if (method === 'log') return Math.max(bytes, LINE_MIN_BYTES);
  if (method === 'started') return bytes;
  if (method === PROGRESS_METHOD) return Math.max(bytes / MESSAGE_BYTES_PER_BYTE, DELTA_MIN_BYTES);
  const verified = countVerifiedBytes(params);
  return Math.max((bytes - verified) / MESSAGE_BYTES_PER_BYTE + verified / VERIFIED_BYTES_PER_BYTE, CALL_MIN_BYTES);
}

function countVerifiedBytes(params: unknown): number {
  const { member, args } = (params ?? {}) as { readonly member?: unknown; readonly args?: unknown };
  if (member !== VERIFY || !Array.isArray(args)) return 0;
  return args.reduce((sum: number, arg) => (arg instanceof Uint8Array ? sum + arg.byteLength : sum), 0);
}

const decodeChildMessage = (buffer: Buffer, start: number, end: number): Record<string, unknown> =>
  decodeUntrusted(buffer, start, end, admitText);

export class ChildMessageReader extends AbstractMessageReader {
  readonly #input: Readable;
  readonly #endRequest: (id: number) => boolean;
  readonly #onViolation: (reason: string) => void;
  readonly #frames: FrameBuffer;
  readonly #windowMessages: number;
  #turnKey: string;
  /** Length of the frame whose message is passed on now, or was last, bytes. */
  messageBytes = 0;
  #onMessage: DataCallback = () => undefined;
  #output: TokenBucket;
  #isStopped = false;
  /** Reading is paused because the bucket or the window is used up. */
  #isPaused = false;
  #pausedAt = 0;
  /** Sum of the pauses that have ended. */
  #pausedMs = 0;
  /** Set while reading is paused until the event loop has time. */
  #turn: Promise<void> | null = null;
  /** Whether the turn of the event loop has come and no costly message was decoded in it. */
  #hasTurn = false;
  #messagesInWindow = 0;
  #windowEndsAt = 0;
  #messagesInTurn = 0;
  #bytesInTurn = 0;
  #turnStartedAt = 0;

  /**
   * @param endRequest ends the request with this id; false: the child was sent none, or has responded to it
   * @param onViolation called at most once; no message is passed on after it
   */
  constructor(
    input: Readable,
    endRequest: (id: number) => boolean,
    onViolation: (reason: string) => void,
    { frameBytes, framesPerSecond, outputBytesPerSecond }: ReadBounds = limits,
  ) {
    super();
    readers += 1;
    this.#turnKey = `child ${readers}`;
    this.#input = input;
    this.#endRequest = endRequest;
    this.#onViolation = onViolation;
    this.#frames = new FrameBuffer(frameBytes);
    this.#windowMessages = Math.ceil((framesPerSecond * WINDOW_MS) / 1_000);
    this.#output = new TokenBucket(perSecond(outputBytesPerSecond));
  }

  chargeOutputTo(bucket: TokenBucket): void {
    this.#output = bucket;
  }

  /** The reader shares its turns of the event loop with the others of an account from now on. */
  shareTurnsOf(accountId: string): void {
    this.#turnKey = accountId;
  }

  /** Resolves when messages that have arrived and wait for a turn of the event loop were read. Null: none wait. */
  get turn(): Promise<void> | null {
    return this.#isStopped ? null : this.#turn;
  }

  /** Whether messages may have arrived that are not read yet. */
  get isBehind(): boolean {
    return !this.#isStopped && (this.#isPaused || this.#turn !== null);
  }

  /** For how long reading was paused because the bucket or a window was used up. Milliseconds. */
  get throttledMs(): number {
    return this.#pausedMs + (this.#isPaused ? unstalledNow() - this.#pausedAt : 0);
  }

  listen(onMessage: DataCallback): Disposable {
    this.#onMessage = onMessage;
    this.#input.on('data', (chunk: Buffer) => {
      this.#frames.push(chunk);
      this.#readFrames();
    });
    // A broken pipe means that the child has ended, which `Child` reports.
    this.#input.on('error', () => undefined);
    return this;
  }

  /** Stops reading. The child's writes stay in the pipe until the child is killed. */
  override dispose(): void {
    super.dispose();
    this.#isStopped = true;
    this.#input.removeAllListeners('data');
    this.#input.pause();
  }

  get #mayRead(): boolean {
    return !(this.#isStopped || this.#isPaused || this.#turn);
  }

  /** Passes on the complete messages that have arrived, within the limits. */
  #readFrames(): void {
    try {
      while (this.#mayRead) {
        const bytesBefore = this.#frames.bytes;
        if (!this.#mayDecodeNext()) return;
        const decoded = this.#frames.readFrame(decodeChildMessage);
        if (decoded === null) {
          // Costs a turn's message: a frame may arrive in as many pieces as it has bytes.
          if (bytesBefore > 0) this.#chargeTurn(0, performance.now());
          return;
        }
        const message = checkChildMessage(decoded, this.#endRequest);
        this.messageBytes = bytesBefore - this.#frames.bytes;
        this.#onMessage(message);
        this.#charge(message, this.messageBytes);
      }
    } catch (error) {
      this.dispose();
      this.#onViolation(error instanceof FrameError ? error.message : reportUnexpected(error));
    }
  }

  /** Whether the next message may be decoded now. A costly one waits until it has a turn of the event loop of its own. */
  #mayDecodeNext(): boolean {
    if ((this.#frames.findNextLength() ?? 0) <= COSTLY_BYTES) return true;
    if (!this.#hasTurn) {
      this.#yieldTurn();
      return false;
    }
    this.#hasTurn = false;
    return true;
  }

  #charge(message: PluginMessage, bytes: number): void {
    // Responses are free: there is one to each request.
    if (message.method !== undefined && !this.#output.overdraw(findCost(message, bytes)))
      this.#pause(EMPTY_BUCKET_PAUSE_MS);
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

  /** Stops reading for a while. The pipe fills up, and then the child's writes block. */
  #pause(ms: number): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#pausedAt = unstalledNow();
    this.#input.pause();
    const resume = (): void => {
      this.#pausedMs = this.throttledMs;
      this.#isPaused = false;
      if (this.#isStopped) return;
      if (this.#output.overdraw(0)) this.#resume();
      else this.#pause(EMPTY_BUCKET_PAUSE_MS);
    };
    setTimeout(resume, ms).unref();
  }

  /** Stops reading until the event loop has time. The others are read before. */
  #yieldTurn(): void {
    this.#input.pause();
    this.#turn = waitForLoopTurn(this.#turnKey).then(() => {
      this.#turn = null;
      this.#startTurn(performance.now());
      this.#hasTurn = true;
      this.#resume();
      this.#hasTurn = false;
    });
  }

  /** Reads the buffered frames, then resumes the pipe. */
  #resume(): void {
    this.#readFrames();
    if (this.#mayRead) this.#input.resume();
  }
}
