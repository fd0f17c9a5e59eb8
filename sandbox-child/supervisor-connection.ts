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
import { CANCEL_METHOD, type CancelParams, type CancelReason, DELTA, openConnection } from './json-rpc.ts';
import { decodeMessage, encodeMessage, refuseCostlyMessage, SCRATCH_BYTES } from './message.ts';
import { describeError } from './text.ts';

/** Messages of the supervisor are trusted and not checked. */
interface SupervisorHandlers {
  /** Returns an outcome or a promise of one. Must neither throw nor reject. */
  onRequest(method: string, params: unknown, cancellation: Cancellation): unknown;
  onNotification(method: string, params: unknown): void;
}
export interface SupervisorConnection {
  /** Rejects if the params are not JSON, and with the supervisor's `ResponseError`. */
  request(method: string, params: object): Promise<unknown>;
  /**
   * Blocks while the pipe is full, so that a plugin that writes too much delays only itself. Rejects if the params are not
   * JSON.
   */
  notify(method: string, params: object): Promise<void>;
  /** Like `notify`. */
  sendDelta(invocationId: string, delta: unknown): Promise<void>;
}

/** Leaves the error to the handler of the process, like every other one that nothing handles. */
const throwAgain = (error: unknown): never => {
  throw error;
};

/** Starts reading. The process exits when its input ends. */
export function connectToSupervisor(handlers: SupervisorHandlers): SupervisorConnection {
  const reader = new StdinReader();
  const connection = openConnection(reader, new StdoutWriter(), receiveCancellations(reader), throwAgain);
  connection.onRequest((method, params, token) => handlers.onRequest(method, params, token as Cancellation));
  connection.onNotification((method, params) => handlers.onNotification(method, params));
  connection.listen();
  return {
    request: (method, params) => connection.sendRequest(method, params),
    notify: (method, params) => connection.sendNotification(method, params),
    sendDelta: (invocationId, delta) => connection.sendProgress(DELTA, invocationId, delta),
  };
}

/** Cancels one request's handler, with the reason. Requests run as they arrive, so a cancellation comes after its handler has begun. */
export class Cancellation implements AbstractCancellationTokenSource {
  readonly #reader: StdinReader;
  #listener: ((reason: CancelReason) => void) | null = null;
  isCancellationRequested = false;

  constructor(reader: StdinReader) {
    this.#reader = reader;
  }

  get token(): this {
    return this;
  }

  /** Supports one listener. */
  onCancellationRequested(listener: (reason: CancelReason) => void): Disposable {
    this.#listener = listener;
    return this;
  }

  cancel(): void {
    this.isCancellationRequested = true;
    this.#listener?.(this.#reader.cancelReason);
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

/** Size of the read buffer, bytes. A larger frame takes several reads. */
const READ_BYTES = 65_536;

export class StdinReader extends AbstractMessageReader {
  /** Reason of the cancellation being handled. Kept here, because the library passes on only the fields that it knows. */
  cancelReason: CancelReason = 'caller';

  listen(callback: DataCallback): Disposable {
    // Unbounded, because the supervisor is trusted.
    const frames = new FrameBuffer(Number.POSITIVE_INFINITY);
    // One reused buffer, where a stream would allocate 64 KB for each read.
    const buffer = Buffer.alloc(READ_BYTES);
    const takeMessage = (): Message | null => frames.readFrame(decodeMessage) as unknown as Message | null;
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

/** JSON.stringify is on the stack also when it throws by itself, at a cycle. */
const PLUGIN_FRAME = /\n +at (?!JSON\.stringify \(<anonymous>\))/;

/** Where the plugin's code threw nothing, the error is about the message: it is too large, too deep, or not JSON. */
function describeUnsendable(error: unknown): { message: string; stack: string } {
  const { message, stack } = describeError(error);
  return PLUGIN_FRAME.test(stack)
    ? { message, stack }
    : { message: `the result cannot be sent: ${message}`, stack: '' };
}

const DONE = Promise.resolve();

/** Writes synchronously to descriptor 1, which blocks. A stream would cost 10 µs and a copy. */
export class StdoutWriter extends AbstractMessageWriter {
  readonly #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

  write(message: Message): Promise<void> {
    try {
      this.#send(message);
    } catch (error) {
      // The library requires an Error, but a plugin's `toJSON` may throw anything.
      if (!Message.isResponse(message)) return Promise.reject(new Error(describeError(error).message));
      // A result of the plugin that cannot be encoded is a failure of the call.
      this.#send({ ...message, result: { outcome: 'failed', ...describeUnsendable(error) } });
    }
    return DONE;
  }

  /** Does nothing, because nothing is buffered. */
  end(): void {}

  #send(message: object): void {
    const frame = encodeMessage(message, FRAME_MAX_BYTES, this.#scratch);
    const bytes = frameBytes(frame);
    refuseCostlyMessage(frame, HEADER_BYTES, bytes);
    try {
      for (let at = 0; at < bytes; ) at += writeSync(1, frame, at, bytes - at);
    } catch {
      // The supervisor has ended.
      process.exit(0);
    }
  }
}
