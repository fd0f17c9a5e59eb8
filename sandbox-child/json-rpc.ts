/** The JSON-RPC connection of both sides of the jail: vscode-jsonrpc over readers and writers of our own. */
import {
  type CancellationStrategy,
  createMessageConnection,
  type Disposable,
  type MessageConnection,
  type MessageReader,
  type MessageWriter,
  NullLogger,
  RAL,
} from 'vscode-jsonrpc';

/** Why a call is cancelled: its deadline has passed, or its caller does not want the answer any more. */
export type CancelReason = 'deadline' | 'caller';
/** The library's own cancellation, with one more field: the reason. */
export const CANCEL_METHOD = '$/cancelRequest';
export interface CancelParams {
  readonly id: number;
  readonly reason: CancelReason;
}

const ignore = (): void => undefined;

// What else the library asks of its runtime is for its stock reader and writer.
RAL.install({
  // It prints what the other side sent.
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
    // Called at once, so that the connection never queues: our readers hand over one message at a time and count what
    // each costs. The connection takes the missing handle for "nothing is scheduled".
    setImmediate(callback): Disposable {
      callback();
      return undefined as unknown as Disposable;
    },
  },
} as RAL);

/** Opens a connection. Requests run as they arrive; the handlers bound how many. */
export function openConnection(
  reader: MessageReader,
  writer: MessageWriter,
  cancellationStrategy: CancellationStrategy,
): MessageConnection {
  return createMessageConnection(reader, writer, NullLogger, {
    cancellationStrategy,
    // With a bound, even an infinite one, the library settles responses without queueing them.
    maxParallelism: Number.POSITIVE_INFINITY,
    messageStrategy: {
      // Nothing is returned: the library would wait for it, in three promises a message, to count what is in flight.
      handleMessage(message, next): void {
        next(message);
      },
    },
  });
}
