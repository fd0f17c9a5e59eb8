/** Response bodies that a child reads while they arrive: `fetch` requests each part, and the host reads no further from the socket until it does. */
import type { Readable } from 'node:stream';
import { setImmediate as waitForTurn } from 'node:timers/promises';
import { KIB, MIB, MODEL_TIMEOUT_MS, SECOND } from '../../../sdk/contract/limits.ts';
import { HostCallRefusal } from '../../children/child-errors.ts';
import type { MaskedStream, SecretMask } from '../../records/secret-mask.ts';
import { HostError } from '../host-call.ts';
import type { TakePart } from './answer-body.ts';
import { describeFailure, type Opened } from './exchange.ts';

export interface StreamBounds {
  /** Bodies of one child that are open at once. */
  readonly openMax: number;
  /** The decoded bytes of one body. */
  readonly bytesMax: number;
  /** From the headers to the last byte, milliseconds. */
  readonly totalMs: number;
  /** How long a plugin waits for the headers or the next bytes, milliseconds. In `chat` of a provider it waits for `totalMs`. */
  readonly idleMs: number;
}
export const STREAM_BOUNDS: StreamBounds = {
  openMax: 16,
  bytesMax: 16 * MIB,
  totalMs: MODEL_TIMEOUT_MS,
  idleMs: 30 * SECOND,
};
/** When this much has arrived with the headers, `begin` reads no further. Bytes. */
const AHEAD_BYTES = 64 * KIB;
const EMPTY = new Uint8Array();
const NOT_OPEN = 'the body is not open any more: it took too long, was cancelled, or its host is not granted any more';

export interface BodyPart {
  readonly bytes: Uint8Array;
  /** Whether the body ends with it. */
  readonly isEnd: boolean;
}

/** The open bodies of all children. Each child chooses the ids of its own. */
export class BodyStreams {
  readonly #bounds: StreamBounds;
  /** Bodies of each child, by the signal that aborts when the child ends. */
  readonly #byChild = new WeakMap<AbortSignal, Map<string, BodyStream>>();

  constructor(bounds: StreamBounds) {
    this.#bounds = bounds;
  }

  /**
   * @param idleMs how long the plugin waits for the next bytes before the body is closed
   * @throws HostError when the child has too many, or one with this id
   */
  open(child: AbortSignal, id: string, idleMs: number): BodyStream {
    const streams = this.#byChild.get(child) ?? new Map<string, BodyStream>();
    this.#byChild.set(child, streams);
    const { openMax } = this.#bounds;
    if (streams.has(id)) throw new HostError('a response with this id is open already');
    if (streams.size >= openMax)
      throw new HostError(`${openMax} responses are open; read their bodies to the end, or cancel them`);
    const stream = new BodyStream({ ...this.#bounds, idleMs }, () => streams.delete(id));
    streams.set(id, stream);
    return stream;
  }

  has(child: AbortSignal, id: string): boolean {
    return this.#byChild.get(child)?.has(id) === true;
  }

  /** @throws HostCallRefusal when it is not open any more, or breaks off */
  async read(child: AbortSignal, id: string): Promise<BodyPart> {
    try {
      const stream = this.#byChild.get(child)?.get(id);
      if (!stream) throw new HostError(NOT_OPEN);
      return await stream.read();
    } catch (error) {
      throw new HostCallRefusal('failed', `fetch: ${(error as Error).message}`);
    }
  }

  /** Closes the connection at once. */
  close(child: AbortSignal, id: string): void {
    this.#byChild.get(child)?.get(id)?.close('the plugin cancelled it');
  }
}

export class BodyStream {
  readonly #bounds: StreamBounds;
  readonly #onClose: () => void;
  readonly #closed = new AbortController();
  readonly #cleanups: (() => unknown)[] = [];
  #reason: string | null = null;
  #hostname = '';
  #body: Readable | null = null;
  #parts: AsyncIterator<Buffer> | null = null;
  /** A part that was asked for and not yet returned. */
  #next: Promise<IteratorResult<Buffer>> | null = null;
  #mask: MaskedStream | null = null;
  #takePart: TakePart = () => undefined;
  #bytes = 0;
  #isReading = false;

  constructor(bounds: StreamBounds, onClose: () => void) {
    this.#bounds = bounds;
    this.#onClose = onClose;
  }

  /** Aborts when the stream is closed: ends the request and its connection. */
  get signal(): AbortSignal {
    return this.#closed.signal;
  }

  /** Closes the body when a signal aborts. @returns a function that stops listening to the signal */
  closeOn(signal: AbortSignal, reason: string): () => void {
    const onAbort = (): void => this.close(reason);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    const stop = (): void => signal.removeEventListener('abort', onAbort);
    this.onClose(stop);
    return stop;
  }

  /** Calls `cleanup` when the body is closed, or now if it is closed already. */
  onClose(cleanup: () => unknown): void {
    if (this.signal.aborted) cleanup();
    else this.#cleanups.push(cleanup);
  }

  /** Idempotent. */
  close(reason: string): void {
    if (this.signal.aborted) return;
    this.#reason = reason;
    this.#closed.abort();
    // Frees what the decoder has buffered.
    this.#body?.on('error', () => undefined).destroy();
    for (const cleanup of this.#cleanups) cleanup();
    this.#onClose();
  }

  /**
   * Takes over the body of an answer.
   *
   * @param mask the secrets of which the plugin has handles
   * @param takePart called with each part before it is returned; rejects only when the stream is closed
   * @returns what has arrived with the headers; a body that is whole by then is closed
   */
  async begin(
    { body, hostname, close }: Opened,
    mask: SecretMask,
    takePart: TakePart,
  ): Promise<Uint8Array<ArrayBuffer>> {
    this.#takePart = takePart;
    this.#hostname = hostname;
    this.#body = body;
    this.#parts = body[Symbol.asyncIterator]();
    this.#mask = mask.isEmpty ? null : mask.openStream();
    this.onClose(close);
    const { totalMs } = this.#bounds;
    const timer = setTimeout(() => this.close(`the body took longer than ${totalMs} ms`), totalMs);
    this.onClose(() => clearTimeout(timer));
    const arrived: Uint8Array[] = [];
    let bytes = 0;
    while (bytes < AHEAD_BYTES && (await this.#hasArrived())) {
      const part = await this.read();
      arrived.push(part.bytes);
      bytes += part.bytes.byteLength;
      if (part.isEnd) break;
    }
    return Buffer.concat(arrived);
  }

  /** Waits for the next bytes. @throws HostError when the body breaks off, is too long, or is read twice at once */
  async read(): Promise<BodyPart> {
    if (this.#isReading) throw new HostError('the body is being read already');
    this.#isReading = true;
    try {
      for (;;) {
        const { done, value } = await this.#take();
        if (done) return this.#end();
        this.#count(value.byteLength);
        await this.#takePart(value)?.catch(() => {
          throw new HostError(this.#reason ?? NOT_OPEN);
        });
        const bytes = this.#maskBytes(value);
        // Empty: the whole part may be the start of a secret, so it waits for the next one.
        if (bytes.byteLength > 0) return { bytes, isEnd: false };
      }
    } finally {
      this.#isReading = false;
    }
  }

  /** Whether the next part, the end or an error is here. */
  #hasArrived(): Promise<boolean> {
    const hasCome = (): boolean => true;
    return Promise.race([this.#ask().then(hasCome, hasCome), waitForTurn(false)]);
  }

  #ask(): Promise<IteratorResult<Buffer>> {
    if (this.#next === null) {
      this.#next = this.#parts?.next() ?? Promise.resolve({ done: true, value: undefined });
      // It may fail before it is read.
      this.#next.catch(() => undefined);
    }
    return this.#next;
  }

  async #take(): Promise<IteratorResult<Buffer>> {
    const { idleMs } = this.#bounds;
    const timer = setTimeout(() => this.close(`nothing of the body arrived within ${idleMs} ms`), idleMs);
    try {
      const next = await this.#ask();
      if (this.#reason !== null) throw new HostError(this.#reason);
      return next;
    } catch (error) {
      const reason =
        this.#reason ?? (error instanceof HostError ? error.message : describeFailure(this.#hostname, error));
      this.close(reason);
      throw new HostError(reason);
    } finally {
      clearTimeout(timer);
      this.#next = null;
    }
  }

  #count(bytes: number): void {
    const { bytesMax } = this.#bounds;
    this.#bytes += bytes;
    if (this.#bytes <= bytesMax) return;
    const reason = `the response is longer than ${bytesMax} bytes`;
    this.close(reason);
    throw new HostError(reason);
  }

  #maskBytes(bytes: Buffer): Uint8Array {
    return this.#mask === null ? bytes : Buffer.from(this.#mask.push(bytes.toString('latin1')), 'latin1');
  }

  #end(): BodyPart {
    const rest = this.#mask?.end() ?? '';
    this.close('the body has ended');
    return { bytes: rest === '' ? EMPTY : Buffer.from(rest, 'latin1'), isEnd: true };
  }
}
