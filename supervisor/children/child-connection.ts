/**
 * The supervisor's end of the connection to a child: JSON-RPC. What comes in is not trusted: a frame is measured before it
 * is kept and a message checked before it is handled, and the first violation closes the connection.
 */
import type { Readable, Writable } from 'node:stream';
import {
  CancellationReceiverStrategy,
  type CancellationStrategy,
  type CancellationToken,
  type Disposable,
  type MessageConnection,
} from 'vscode-jsonrpc';
import { CANCEL_METHOD, type CancelReason, openConnection } from '../../sandbox-child/json-rpc.ts';
import type { TokenBucket } from '../../service/timing/token-bucket.ts';
import { ChildError, HostCallRefusal, refusalToResponse } from './child-errors.ts';
import { ChildMessageReader, type ReadBounds } from './child-message-reader.ts';
import { ChildMessageWriter } from './child-message-writer.ts';

export interface ConnectionHandlers {
  /** Answers a request of the child. What it rejects with goes back as an error, with its text if it is a `HostCallRefusal`. */
  onRequest(method: string, params: unknown): Promise<unknown>;
  onNotification(method: string, params: unknown): void;
  /** The child broke the rules; nothing more is read. */
  onViolation(reason: string): void;
}

/** Requests of the child being answered: its 16 in flight, those waiting, and slack. */
const REQUESTS_MAX = 128;

/** Cancels one request. */
export class Cancellation implements CancellationToken {
  isCancellationRequested = false;
  #send: ((event: undefined) => void) | null = null;

  /** The connection registers what sends the cancellation. */
  onCancellationRequested(send: (event: undefined) => void): Disposable {
    this.#send = send;
    return this;
  }

  fire(): void {
    if (this.isCancellationRequested) return;
    this.isCancellationRequested = true;
    this.#send?.(undefined);
  }

  /** The request has been answered. */
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
  #cancelReason: CancelReason = 'caller';
  #closed: ChildError | null = null;

  /** Starts reading. `bounds`: of what the child sends. */
  constructor(input: Readable, output: Writable, handlers: ConnectionHandlers, bounds?: ReadBounds) {
    const onViolation = (reason: string): void => this.#violate(reason);
    this.#handlers = handlers;
    this.#writer = new ChildMessageWriter(output, onViolation);
    this.#reader = new ChildMessageReader(input, () => this.#writer.lastRequestId, onViolation, bounds);
    this.#connection = openConnection(this.#reader, this.#writer, this.#sendCancellations());
    this.#connection.onRequest((method, params) => this.#answer(method, params));
    this.#connection.onNotification((method, params) => handlers.onNotification(method, params));
    this.#connection.listen();
  }

  /** From now on the child's output is charged to this bucket. */
  chargeOutputTo(bucket: TokenBucket): void {
    this.#reader.chargeOutputTo(bucket);
  }

  /**
   * Sends a request. Rejects with `ChildError`: `too_large` or `broken` where it cannot be encoded, `broken` where the child
   * answers with an error, and the reason of `close` where that comes first.
   */
  request(method: string, params: object, cancellation = new Cancellation()): Promise<unknown> {
    return new Promise((resolve, reject) => this.call(method, params, cancellation, resolve, reject));
  }

  /** `request` for every hook, which a promise more would slow down. Calls one of the two, and never before it returns. */
  call(
    method: string,
    params: object,
    cancellation: Cancellation,
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

  /** Asks the child to abort a request, which it still answers. */
  cancel(cancellation: Cancellation, reason: CancelReason): void {
    if (this.#closed) return;
    this.#cancelReason = reason;
    cancellation.fire();
  }

  notify(method: string, params: object): void {
    if (this.#closed) return;
    // What is sent unasked are settings, which fit.
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
    this.close(new ChildError('dead', `it broke the protocol: ${reason}`));
    this.#handlers.onViolation(reason);
  }

  async #answer(method: string, params: unknown): Promise<unknown> {
    if (this.#answering >= REQUESTS_MAX) {
      return refusalToResponse(new HostCallRefusal('too_many_calls', 'too many calls at once'));
    }
    this.#answering += 1;
    try {
      // Wrapped: JSON drops `undefined` from an object, where the library would send null.
      return { value: await this.#handlers.onRequest(method, params) };
    } catch (error) {
      return refusalToResponse(error);
    } finally {
      this.#answering -= 1;
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
