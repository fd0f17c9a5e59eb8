/** Opens a JSON-RPC connection for supervisor and child: vscode-jsonrpc over this project's readers and writers. */
import {
  type CancellationStrategy,
  createMessageConnection,
  type Disposable,
  type MessageConnection,
  type MessageReader,
  type MessageWriter,
  NullLogger,
  ProgressType,
  RAL,
} from 'vscode-jsonrpc';

/** Why a call is cancelled: its deadline has passed, or its caller has cancelled it, who may have said why. */
export type CancelReason = 'deadline' | 'caller' | `caller: ${string}`;
/** The library's cancellation method. The project adds a reason to its params. */
export const CANCEL_METHOD = '$/cancelRequest';
export interface CancelParams {
  readonly id: number;
  readonly reason: CancelReason;
}

/** Progress of an `invoke`, whose token is the invocation's id: a delta of its answer. */
export const DELTA = new ProgressType<unknown>();
/** Deltas of one answer that a child sends before the first of them was read. More violate the protocol. */
export const DELTAS_UNREAD_MAX = 16;

const ignore = (): void => undefined;

// The library uses the other members of its runtime only for its own reader and writer.
RAL.install({
  // Silent, because the library would print messages of the other side.
  console: { error: ignore, info: ignore, log: ignore, warn: ignore },
  timer: {
    setTimeout(callback, ms, ...args): Disposable {
      const timer = setTimeout(callback, ms, ...args);
      return { dispose: () => clearTimeout(timer) };
    },
    setInterval(callback, ms, ...args): Disposable {
      const timer = setInterval(callback, ms, ...args);
      return { dispose: () => clearInterval(timer) };
    },
    // Called synchronously, so that the connection never queues: the readers pass on one message at a time and charge for
    // each. The connection interprets the missing handle as "nothing is scheduled".
    setImmediate(callback): Disposable {
      callback();
      return undefined as unknown as Disposable;
    },
  },
} as RAL);

/**
 * Opens a connection. Requests run as they arrive; the handlers bound their number.
 *
 * @param onUnexpected called with an error that the library throws while it handles a message, such as one of the writer
 */
export function openConnection(
  reader: MessageReader,
  writer: MessageWriter,
  cancellationStrategy: CancellationStrategy,
  onUnexpected: (error: unknown) => void,
): MessageConnection {
  return createMessageConnection(reader, writer, NullLogger, {
    cancellationStrategy,
    // With any bound set, even an infinite one, the library handles responses without queueing them.
    maxParallelism: Number.POSITIVE_INFINITY,
    messageStrategy: {
      // Returns nothing: the library would await a result with three promises per message.
      handleMessage(message, next): void {
        Promise.resolve(next(message)).catch(onUnexpected);
      },
    },
  });
}
