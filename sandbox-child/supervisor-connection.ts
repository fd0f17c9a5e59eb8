/** The child's end of the connection to its supervisor: JSON-RPC over descriptors 0 and 1. */
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import {
  type AbstractCancellationTokenSource,
  AbstractMessageReader,
  AbstractMessageWriter,
  type CancellationStrategy,
  type DataCallback,
  type Disposable,
  Message,
} from 'vscode-jsonrpc';
import { FRAME_MAX_BYTES, FrameBuffer, frameBytes, HEADER_BYTES } from './frame.ts';
import { CANCEL_METHOD, type CancelParams, type CancelReason, openConnection } from './json-rpc.ts';
import { decodeMessage, encodeMessage, refuseDeepNesting, SCRATCH_BYTES } from './message.ts';
import { explain } from './text.ts';

/** What the supervisor sends needs no check: it is our own. */
export interface SupervisorHandlers {
  /** Answers a request with an outcome or a promise of one. Must neither throw nor reject. */
  onRequest(method: string, params: unknown, cancellation: Cancellation): unknown;
  onNotification(method: string, params: unknown): void;
}
export interface SupervisorConnection {
  /** Rejects where the arguments are no JSON, and with the supervisor's `ResponseError`. */
  request(method: string, params: object): Promise<unknown>;
  /**
   * Waits where the pipe is full: a plugin that floods its supervisor holds up itself alone. Rejects where the arguments are
   * no JSON.
   */
  notify(method: string, params: object): Promise<void>;
}

/** Starts reading. At the end of the input the process ends. */
export function connectToSupervisor(handlers: SupervisorHandlers): SupervisorConnection {
  const reader = new StdinReader();
  const connection = openConnection(reader, new StdoutWriter(), receiveCancellations(reader));
  connection.onRequest((method, params, token) => handlers.onRequest(method, params, token as Cancellation));
  connection.onNotification((method, params) => handlers.onNotification(method, params));
  connection.listen();
  return {
    request: (method, params) => connection.sendRequest(method, params),
    notify: (method, params) => connection.sendNotification(method, params),
  };
}

/** Tells one request's handler that its answer is not wanted any more, and why. */
export class Cancellation implements AbstractCancellationTokenSource {
  readonly #reader: StdinReader;
  #listener: ((reason: CancelReason) => void) | null = null;
  /** Null until it is cancelled. */
  reason: CancelReason | null = null;

  constructor(reader: StdinReader) {
    this.#reader = reader;
  }

  get token(): this {
    return this;
  }

  get isCancellationRequested(): boolean {
    return this.reason !== null;
  }

  /** Has one listener. */
  onCancellationRequested(listener: (reason: CancelReason) => void): Disposable {
    this.#listener = listener;
    return this;
  }

  cancel(): void {
    this.reason = this.#reader.cancelReason;
    this.#listener?.(this.reason);
  }

  dispose(): void {
    this.#listener = null;
  }
}

const receiveCancellations = (reader: StdinReader): CancellationStrategy => ({
  receiver: { kind: 'request', createCancellationTokenSource: () => new Cancellation(reader) },
  // The child cancels nothing.
  sender: { sendCancellation: () => Promise.resolve(), cleanup: () => undefined },
});

/** What is read at once; a larger frame is joined from several reads. Bytes. */
const READ_BYTES = 65_536;

export class StdinReader extends AbstractMessageReader {
  /** Of the cancellation that the connection handles right now: it drops what it does not know of the message. */
  cancelReason: CancelReason = 'caller';

  listen(callback: DataCallback): Disposable {
    // The supervisor's frames have its own bound.
    const frames = new FrameBuffer(Number.POSITIVE_INFINITY);
    // One buffer for every read, instead of a stream's 64 KB for each.
    const buffer = Buffer.alloc(READ_BYTES);
    const takeMessage = (): Message | null => frames.take(decodeMessage) as unknown as Message | null;
    const onRead = (bytes: number): boolean => {
      frames.push(buffer, bytes);
      for (let message = takeMessage(); message !== null; message = takeMessage()) this.#receive(message, callback);
      frames.copyRest();
      return true;
    };
    const input = new Socket({ fd: 0, readable: true, writable: false, onread: { buffer, callback: onRead } });
    input.on('end', () => process.exit(0));
    input.on('error', () => process.exit(0));
    input.resume();
    return this;
  }

  #receive(message: Message, callback: DataCallback): void {
    if (Message.isNotification(message) && message.method === CANCEL_METHOD) {
      this.cancelReason = (message.params as unknown as CancelParams).reason;
    }
    callback(message);
  }
}

const DONE = Promise.resolve();

/** Writes without a stream, which would cost 10 µs and a copy: descriptor 1 blocks. */
export class StdoutWriter extends AbstractMessageWriter {
  readonly #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

  write(message: Message): Promise<void> {
    try {
      this.#send(message);
    } catch (error) {
      // The library needs an error, and a plugin's `toJSON` may throw anything.
      if (!Message.isResponse(message)) return Promise.reject(new Error(explain(error).message));
      // The result is a plugin's and cannot be sent: that is what came of the call.
      this.#send({ ...message, result: { outcome: 'failed', ...explain(error) } });
    }
    return DONE;
  }

  /** Nothing waits in here. */
  end(): void {}

  #send(message: object): void {
    const frame = encodeMessage(message, FRAME_MAX_BYTES, this.#scratch);
    const bytes = frameBytes(frame);
    refuseDeepNesting(frame, HEADER_BYTES, bytes);
    try {
      for (let at = 0; at < bytes; ) at += writeSync(1, frame, at, bytes - at);
    } catch {
      // The supervisor has gone.
      process.exit(0);
    }
  }
}
