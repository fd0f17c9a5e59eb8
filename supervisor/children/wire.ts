/**
 * The supervisor's end of a child's wire. Everything that comes in is a stranger's: a frame is measured before it is
 * kept, its shape is checked before it is believed, and the first violation ends the conversation.
 *
 * Not vscode-jsonrpc: it has no bounds of its own, and its stock connection alone takes 4.5 times a bare pipe on one core
 * for a 4 KB prompt, where a whole checked, counted and jailed hook takes 2 this way (`bench/hook-round-trip.ts`).
 */
import type { Readable, Writable } from 'node:stream';
import { encodeFrame, FRAME_TO_CHILD_MAX_BYTES, frameLength, type Message } from '../../sandbox-child/frame.ts';
import { ChildError } from './child-errors.ts';
import { FrameReader, type ReadBounds } from './frame-reader.ts';
import type { Allowance } from './output-token-bucket.ts';

export interface WireHandlers {
  /** Answers a request of the child; what it rejects with goes back as an error, if it is a `WireRefusal`. */
  request(method: string, params: unknown): Promise<unknown>;
  notice(method: string, params: unknown): void;
  /** The child broke the rules; nothing more will be read. */
  violation(reason: string): void;
}
/** An error whose code and message are made for the other side of the wire. */
export class WireRefusal extends Error {
  override readonly name = 'WireRefusal';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** What may wait for a child that does not read, bytes: two of the largest frames. */
const BACKLOG_MAX_BYTES = 2 * FRAME_TO_CHILD_MAX_BYTES;
/** Requests of the child being answered: its 16 in flight, those waiting, and slack. */
const REQUESTS_MAX = 128;

/** Frames up to this are written from one place: nearly every write is over when it returns. */
const SCRATCH_BYTES = 65_536;

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: ChildError) => void;
}

export class Wire {
  readonly #output: Writable;
  readonly #handlers: WireHandlers;
  readonly #reader: FrameReader;
  readonly #waiting = new Map<number, Waiting>();
  #serial = 0;
  #answering = 0;
  #closed: ChildError | null = null;

  /** Starts the conversation. `bounds`: of what may come in. */
  constructor(input: Readable, output: Writable, handlers: WireHandlers, bounds?: ReadBounds) {
    this.#output = output;
    this.#handlers = handlers;
    this.#reader = new FrameReader(
      input,
      (message) => this.#receive(message),
      (reason) => this.#violate(reason),
      bounds,
    );
    // As in the reader: a broken pipe is the end of the child.
    output.on('error', () => undefined);
  }

  /** From now on what the child says unasked is taken from this. */
  allow(allowance: Allowance): void {
    this.#reader.allow(allowance);
  }

  /** `call`, as a promise. */
  request(method: string, params: unknown): Promise<unknown> {
    return new Promise((resolve, reject) => this.call(method, params, resolve, reject));
  }

  /**
   * Sends a request; one of the two is called, once. A promise for each call would be one too many for hooks.
   * Refused with `too_large` or `broken` where it cannot be encoded, and with the reason of `close` where that comes first.
   */
  call(method: string, params: unknown, resolve: (result: unknown) => void, reject: (error: ChildError) => void): void {
    this.#serial += 1;
    const id = this.#serial;
    try {
      this.#send({ id, method, params });
    } catch (error) {
      reject(new ChildError(error instanceof RangeError ? 'too_large' : 'broken', (error as Error).message));
      return;
    }
    // The send itself may have found out that the child does not read.
    if (this.#closed) reject(this.#closed);
    else this.#waiting.set(id, { resolve, reject });
  }

  notice(method: string, params: unknown): void {
    this.#send({ method, params });
  }

  /** Fails what is waiting and reads no more. Safe to call again. */
  close(reason: ChildError): void {
    if (this.#closed) return;
    this.#closed = reason;
    this.#reader.stop();
    for (const { reject } of this.#waiting.values()) reject(reason);
    this.#waiting.clear();
  }

  #send(message: Message): void {
    if (this.#closed) return;
    const output = this.#output;
    const allocate = output.writableLength === 0 ? lendScratch : allocateFrame;
    const frame = encodeFrame(message, allocate, FRAME_TO_CHILD_MAX_BYTES);
    output.write(frame.subarray(0, frameLength(frame)));
    if (output.writableLength === 0) return;
    // The kernel did not take all of it at once, so its memory is still in use.
    if (frame.buffer === scratch.buffer) scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
    if (output.writableLength > BACKLOG_MAX_BYTES) this.#violate('it does not read what it is sent');
  }

  #violate(reason: string): void {
    if (this.#closed) return;
    this.close(new ChildError('dead', `it broke the protocol: ${reason}`));
    this.#handlers.violation(reason);
  }

  #receive(message: Message): void {
    if (typeof message.method === 'string') this.#serve(message, message.method);
    else this.#settle(message);
  }

  #serve({ id, params }: Message, method: string): void {
    if (id === undefined) this.#handlers.notice(method, params);
    else if (!isSerial(id)) this.#violate('the id of a request is no number');
    else if (this.#answering < REQUESTS_MAX) this.#answer(id, method, params);
    else this.#send({ id, error: { code: 'too_many_calls', message: 'too many calls at once' } });
  }

  #settle({ id, result, error }: Message): void {
    if (!isSerial(id) || id > this.#serial) {
      this.#violate('an answer to nothing');
      return;
    }
    const call = this.#waiting.get(id);
    this.#waiting.delete(id);
    // A second answer, or one after the deadline, finds nobody and is dropped.
    if (error === undefined) call?.resolve(result);
    else call?.reject(new ChildError('broken', 'the child refused a request'));
  }

  async #answer(id: number, method: string, params: unknown): Promise<void> {
    this.#answering += 1;
    try {
      const result = await this.#handlers.request(method, params);
      this.#send({ id, result });
    } catch (error) {
      // Text of our own errors never crosses: only what was written for the child.
      const known = error instanceof WireRefusal;
      const { code, message } = known ? error : { code: 'internal', message: 'it failed inside' };
      this.#send({ id, error: { code, message } });
    } finally {
      this.#answering -= 1;
    }
  }
}

let scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
const allocateFrame = (bytes: number): Buffer => Buffer.allocUnsafeSlow(bytes);
const lendScratch = (bytes: number): Buffer => (bytes <= SCRATCH_BYTES ? scratch : allocateFrame(bytes));

const isSerial = (id: unknown): id is number => Number.isSafeInteger(id) && (id as number) > 0;
