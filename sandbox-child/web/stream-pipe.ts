/** Pipes a readable stream into a writable one. */
import type { WritableStreamDefaultWriter } from './writable-stream.ts';

export interface PipeOptions {
  readonly preventClose?: boolean;
  readonly preventAbort?: boolean;
  readonly preventCancel?: boolean;
  readonly signal?: AbortSignal;
}
interface Reader<T> {
  readonly closed: Promise<undefined>;
  read(): Promise<{ done: boolean; value: T | undefined }>;
  cancel(reason: unknown): Promise<undefined>;
  releaseLock(): void;
}

/** Why a pipe ends before its source. */
interface PipeStop {
  readonly from: 'source' | 'target' | 'signal';
  readonly reason: unknown;
}

/** Resolves when everything is written. Releases both locks. @throws why it ended early */
export async function pipe<T>(
  reader: Reader<T>,
  writer: WritableStreamDefaultWriter<T>,
  options: PipeOptions,
): Promise<undefined> {
  const { signal } = options;
  const stopped = Promise.withResolvers<PipeStop>();
  const ended = Promise.withResolvers<void>();
  const copy = new Copy(reader, writer);
  const onAbort = (): void => {
    copy.isStopped = true;
    stopped.resolve({ from: 'signal', reason: signal?.reason });
  };
  if (signal?.aborted) onAbort();
  else signal?.addEventListener('abort', onAbort);
  reader.closed.then(
    () => {
      copy.isSourceClosed = true;
      // A target without room must be closed all the same: nothing comes that it could refuse.
      if (!copy.isWaiting) return;
      copy.isStopped = true;
      ended.resolve();
    },
    (error) => stopped.resolve({ from: 'source', reason: error }),
  );
  writer.closed.then(
    () => stopped.resolve({ from: 'target', reason: new TypeError('the writable stream was closed') }),
    (error) => stopped.resolve({ from: 'target', reason: error }),
  );
  try {
    const end = ended.promise.then(() => copy.written).then(() => null);
    const stop = await Promise.race([stopped.promise, copy.run(), end]);
    if (stop === null) {
      if (!options.preventClose) await writer.close();
      return;
    }
    // What has been read is written, unless the target failed.
    await Promise.race([copy.written, writer.closed.catch(() => undefined)]);
    await endBoth(reader, writer, stop, options);
    throw stop.reason;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    reader.releaseLock();
    writer.releaseLock();
  }
}

/** Writes the chunks of a source to a target. */
class Copy<T> {
  readonly #reader: Reader<T>;
  readonly #writer: WritableStreamDefaultWriter<T>;
  /** Resolves when the last chunk so far is written. Its error arrives through `closed`. */
  written: Promise<unknown> = Promise.resolve();
  /** Set to read no further chunk. */
  isStopped = false;
  /** Whether it waits until the target has room. */
  isWaiting = false;
  isSourceClosed = false;

  constructor(reader: Reader<T>, writer: WritableStreamDefaultWriter<T>) {
    this.#reader = reader;
    this.#writer = writer;
  }

  /** Resolves with null at the end of the source, or when it was stopped. */
  async run(): Promise<PipeStop | null> {
    for (;;) {
      try {
        this.isWaiting = true;
        if (!this.isSourceClosed) await this.#writer.ready;
      } catch (error) {
        return { from: 'target', reason: error };
      } finally {
        this.isWaiting = false;
      }
      if (this.isStopped) break;
      try {
        const { done, value } = await this.#reader.read();
        if (done) break;
        this.written = this.#writer.write(value as T).catch(() => undefined);
      } catch (error) {
        return { from: 'source', reason: error };
      }
    }
    await this.written;
    return null;
  }
}

async function endBoth<T>(
  reader: Reader<T>,
  writer: WritableStreamDefaultWriter<T>,
  { from, reason }: PipeStop,
  { preventAbort, preventCancel }: PipeOptions,
): Promise<void> {
  await Promise.all([
    from === 'target' || preventAbort ? undefined : writer.abort(reason),
    from === 'source' || preventCancel ? undefined : reader.cancel(reason),
  ]);
}
