/**
 * The supervisor's end of the JSON-RPC connection to a child. Input is untrusted: the reader bounds each frame before it
 * buffers it and checks each message before it is handled. The first violation closes the connection.
 */
import type { Readable, Writable } from 'node:stream';
import {
  CancellationReceiverStrategy,
  type CancellationStrategy,
  type CancellationToken,
  type Disposable,
  type MessageConnection,
} from 'vscode-jsonrpc';
import { CANCEL_METHOD, type CancelReason, DELTA, openConnection } from '../../sandbox-child/json-rpc.ts';
import { limits, MIB } from '../../sdk/contract/limits.ts';
import type { TokenBucket } from '../../service/timing/token-bucket.ts';
import { describeViolation } from './child-end.ts';
import { ChildError, HostCallRefusal, refusalToResponse, reportUnexpected } from './child-errors.ts';
import { ChildMessageReader, type ReadBounds } from './child-message-reader.ts';
import { ChildMessageWriter } from './child-message-writer.ts';

interface ConnectionHandlers {
  /** Handles a request of the child. A rejection is sent back as an error, with its text if it is a `HostCallRefusal`. */
  onRequest(method: string, params: unknown): Promise<unknown>;
  onNotification(method: string, params: unknown): void;
  /** The child violated the protocol. Reading has stopped. */
  onViolation(reason: string): void;
}

/** Requests of one child handled at once: the 16 that the child program sends at once, its 64 queued ones, and slack. */
const REQUESTS_MAX = 128;
/** Their bytes, in frames of the largest size: a request is kept as it came, for two minutes if it waits for a model. */
const REQUEST_FRAMES_MAX = 4;

/** Cancels one request. */
export class SentCancellation implements CancellationToken {
  isCancellationRequested = false;
  #send: ((event: undefined) => void) | null = null;

  /** The connection registers the function that sends the cancellation. */
  onCancellationRequested(send: (event: undefined) => void): Disposable {
    this.#send = send;
    return this;
  }

  fire(): void {
    if (this.isCancellationRequested) return;
    this.isCancellationRequested = true;
    this.#send?.(undefined);
  }

  /** The connection calls this when the request has its response. */
  dispose(): void {
    this.#send = null;
  }
}

export class ChildConnection {
  readonly #connection: MessageConnection;
  readonly #reader: ChildMessageReader;
  readonly #writer: ChildMessageWriter;
  readonly #handlers: ConnectionHandlers;
  #answering = 0;
  #answeringBytes = 0;
  readonly #answeringMaxBytes: number;
  #cancelReason: CancelReason = 'caller';
  #closed: ChildError | null = null;

  /** Starts reading. `bounds` apply to what the child sends. */
  constructor(input: Readable, output: Writable, handlers: ConnectionHandlers, bounds: ReadBounds = limits) {
    const onViolation = (reason: string): void => this.#violate(reason);
    this.#handlers = handlers;
    this.#answeringMaxBytes = REQUEST_FRAMES_MAX * bounds.frameBytes;
    this.#writer = new ChildMessageWriter(output, onViolation);
    this.#reader = new ChildMessageReader(input, (id) => this.#writer.endRequest(id), onViolation, bounds);
    this.#connection = openConnection(this.#reader, this.#writer, this.#sendCancellations(), (error) =>
      this.#violate(reportUnexpected(error)),
    );
    this.#connection.onRequest((method, params) => this.#handleRequest(method, params));
    this.#connection.onNotification((method, params) => handlers.onNotification(method, params));
    this.#connection.listen();
  }

  chargeOutputTo(bucket: TokenBucket): void {
    this.#reader.chargeOutputTo(bucket);
  }

  /** The reader shares its turns of the event loop with the others of an account from now on. */
  shareTurnsOf(accountId: string): void {
    this.#reader.shareTurnsOf(accountId);
  }

  /** Whether messages may have arrived that are not read yet: they wait for a turn of the event loop, or for the output bucket. */
  get isBehind(): boolean {
    return this.#reader.isBehind;
  }

  /** For how long the child's output was not read because it exceeds its rate. Milliseconds. */
  get throttledMs(): number {
    return this.#reader.throttledMs;
  }

  /** Calls the function after the next turn of the event loop for messages that have arrived; at once if none waits for one. */
  afterTurn(then: () => void): void {
    const { turn } = this.#reader;
    if (turn === null) then();
    // The event loop reads the pipe, whose reading has been resumed, before the next immediate.
    else void turn.then(() => setImmediate(then));
  }

  /**
   * Sends a request. Rejects with `ChildError`: `too_large` or `broken` if it cannot be encoded, `broken` if the child
   * responds with an error, and the reason of `close` if that comes first.
   */
  request(method: string, params: object, cancellation = new SentCancellation()): Promise<unknown> {
    return new Promise((resolve, reject) => this.call(method, params, cancellation, resolve, reject));
  }

  /** Why requests are not sent any more; null if they are. */
  get closed(): ChildError | null {
    return this.#closed;
  }

  /** Like `request`, without the extra promise: hooks are hot. Calls one of the two callbacks, after it has returned. */
  call(
    method: string,
    params: object,
    cancellation: SentCancellation,
    onResult: (result: unknown) => void,
    onError: (error: ChildError) => void,
  ): void {
    const response = this.#closed
      ? Promise.reject(this.#closed)
      : this.#connection.sendRequest(method, params, cancellation);
    const failure = this.#writer.takeFailure();
    response.then(onResult, () => {
      onError(this.#closed ?? failure ?? new ChildError('broken', 'the child answered a request with an error'));
    });
  }

  /** Asks the child to abort a request. The child still responds to it. */
  cancel(cancellation: SentCancellation, reason: CancelReason): void {
    if (this.#closed) return;
    this.#cancelReason = reason;
    cancellation.fire();
  }

  /** Receives the deltas of an invocation until the returned object is disposed. */
  onDelta(invocationId: string, receive: (delta: unknown) => void): Disposable {
    return this.#connection.onProgress(DELTA, invocationId, receive);
  }

  notify(method: string, params: object): void {
    if (this.#closed) return;
    // The notifications carry ids, or settings, which fit into a frame.
    this.#connection.sendNotification(method, params).catch(() => this.#violate(`${method} cannot be sent to it`));
  }

  /** Fails pending requests and stops reading. Idempotent. */
  close(reason: ChildError): void {
    if (this.#closed) return;
    this.#closed = reason;
    this.#connection.dispose();
  }

  #violate(reason: string): void {
    if (this.#closed) return;
    this.close(new ChildError('dead', describeViolation(reason)));
    this.#handlers.onViolation(reason);
  }

  async #handleRequest(method: string, params: unknown): Promise<unknown> {
    // The reader passes on one message at a time, and this is the beginning of it.
    const bytes = this.#reader.messageBytes;
    if (this.#answering >= REQUESTS_MAX)
      return refusalToResponse(new HostCallRefusal('too_many_calls', 'too many calls at once'));
    if (this.#answeringBytes + bytes > this.#answeringMaxBytes) {
      const bound = `calls in progress hold at most ${this.#answeringMaxBytes / MIB} MiB together: await some first`;
      return refusalToResponse(new HostCallRefusal('too_many_calls', bound));
    }
    this.#answering += 1;
    this.#answeringBytes += bytes;
    try {
      // In an object, because JSON drops `undefined` from an object but the library sends a bare one as null.
      return { value: await this.#handlers.onRequest(method, params) };
    } catch (error) {
      return refusalToResponse(error);
    } finally {
      this.#answering -= 1;
      this.#answeringBytes -= bytes;
    }
  }

  #sendCancellations(): CancellationStrategy {
    return {
      sender: {
        sendCancellation: (connection, id) =>
          connection.sendNotification(CANCEL_METHOD, { id, reason: this.#cancelReason }),
        cleanup: () => undefined,
      },
      // The reader refuses cancellations by the child.
      receiver: CancellationReceiverStrategy.Message,
    };
  }
}
