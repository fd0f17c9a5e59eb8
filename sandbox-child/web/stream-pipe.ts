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
  const onAbort = (): void => stopped.resolve({ from: 'signal', reason: signal?.reason });
  if (signal?.aborted) onAbort();
  else signal?.addEventListener('abort', onAbort);
  reader.closed.catch((error) => stopped.resolve({ from: 'source', reason: error }));
  writer.closed.then(
    () => stopped.resolve({ from: 'target', reason: new TypeError('the writable stream was closed') }),
    (error) => stopped.resolve({ from: 'target', reason: error }),
  );
  try {
    const stop = await Promise.race([stopped.promise, copyChunks(reader, writer)]);
    if (stop === null) {
      if (!options.preventClose) await writer.close();
      return;
    }
    await endBoth(reader, writer, stop, options);
    throw stop.reason;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    reader.releaseLock();
    writer.releaseLock();
  }
}

/** Resolves with null at the end of the source. */
async function copyChunks<T>(reader: Reader<T>, writer: WritableStreamDefaultWriter<T>): Promise<PipeStop | null> {
  let written: Promise<unknown> = Promise.resolve();
  for (;;) {
    try {
      await writer.ready;
    } catch (error) {
      return { from: 'target', reason: error };
    }
    try {
      const { done, value } = await reader.read();
      if (done) break;
      // The error of a write arrives through `closed`.
      written = writer.write(value as T).catch(() => undefined);
    } catch (error) {
      return { from: 'source', reason: error };
    }
  }
  await written;
  return null;
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
