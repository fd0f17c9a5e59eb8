/** ReadableStream for plugins, as the streams standard defines it, without BYOB readers. */
import { callAsync, createQuietPromise, type QueuingStrategy } from './chunk-queue.ts';
import { ReadableCore, type ReaderLock, type ReadResult, type UnderlyingSource } from './readable-core.ts';
import { type PipeOptions, pipe } from './stream-pipe.ts';
import type { WritableStream } from './writable-stream.ts';

export type Source<T> = UnderlyingSource<ReadableStreamDefaultController<T>>;

/** Only this file can create controllers. Plugins get them in `start` and `pull`. */
const INTERNAL = Symbol('controller');

export class ReadableStreamDefaultController<T = unknown> {
  readonly #core: ReadableCore<T>;

  constructor(token: symbol, core: ReadableCore<T>) {
    if (token !== INTERNAL) throw new TypeError('a controller has no public constructor');
    this.#core = core;
  }
  get desiredSize(): number | null {
    return this.#core.desiredSize;
  }
  enqueue(chunk: T): void {
    this.#core.enqueue(chunk);
  }
  close(): void {
    this.#core.close();
  }
  error(reason?: unknown): void {
    this.#core.fail(reason);
  }
}

/** The controller of a stream of bytes: chunks are `Uint8Array`. */
export class ReadableByteStreamController extends ReadableStreamDefaultController<Uint8Array> {
  /** Always null: there are no BYOB readers. */
  get byobRequest(): null {
    return null;
  }
  override enqueue(chunk: Uint8Array): void {
    if (!ArrayBuffer.isView(chunk)) throw new TypeError('a stream of bytes takes typed arrays');
    if (chunk.byteLength === 0) throw new TypeError('a stream of bytes takes no empty chunks');
    super.enqueue(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength));
  }
}

/** Returns the state of a stream, for other files of this folder. */
export let coreOf: <T>(stream: ReadableStream<T>) => ReadableCore<T>;

export class ReadableStream<T = unknown> {
  readonly #core: ReadableCore<T>;
  readonly #isBytes: boolean;

  static {
    coreOf = (stream) => stream.#core;
  }

  constructor(source?: Source<T> | null, strategy: QueuingStrategy<T> = {}) {
    const from = source ?? {};
    const isBytes = from.type === 'bytes';
    if (!isBytes && from.type !== undefined) throw new TypeError(`a source cannot have the type ${String(from.type)}`);
    this.#isBytes = isBytes;
    this.#core = new ReadableCore<T>(from as UnderlyingSource<unknown>, strategy, isBytes ? 0 : 1);
    const core = this.#core;
    const controller = isBytes
      ? new ReadableByteStreamController(INTERNAL, core as unknown as ReadableCore<Uint8Array>)
      : new ReadableStreamDefaultController(INTERNAL, core);
    core.start(controller);
  }

  /** Creates a stream of the values of an iterable. */
  static from<T>(iterable: AsyncIterable<T> | Iterable<T>): ReadableStream<T> {
    const { iterator, isAsync } = openIterator(iterable);
    return new ReadableStream<T>(
      {
        async pull(controller) {
          const { done, value } = await iterator.next();
          if (done) controller.close();
          // As `for await` does with the promises of a list.
          else controller.enqueue(isAsync ? value : await value);
        },
        async cancel(reason) {
          await iterator.return?.(reason);
        },
      },
      { highWaterMark: 0 },
    );
  }

  get locked(): boolean {
    return this.#core.lock !== null;
  }

  async cancel(reason?: unknown): Promise<undefined> {
    if (this.locked) throw new TypeError('the stream is locked: cancel it through its reader');
    return this.#core.cancel(reason);
  }

  getReader(options?: { readonly mode?: string | undefined } | null): ReadableStreamDefaultReader<T> {
    const mode = options?.mode;
    if (mode !== undefined)
      throw new TypeError(
        `readers with mode ${String(mode)} do not exist in a plugin: call getReader() without a mode`,
      );
    return new ReadableStreamDefaultReader(this);
  }

  pipeThrough<To extends ReadableStream>(
    pair: { readonly writable: WritableStream<T>; readonly readable: To },
    options?: PipeOptions,
  ): To {
    this.pipeTo(pair.writable, options).catch(() => undefined);
    return pair.readable;
  }

  async pipeTo(writable: WritableStream<T>, options?: PipeOptions): Promise<undefined> {
    if (this.locked || writable.locked) throw new TypeError('a stream that is locked cannot be piped');
    const signal = options?.signal;
    if (signal !== undefined && !(signal instanceof AbortSignal))
      throw new TypeError('the signal of a pipe must be an AbortSignal');
    return pipe(this.getReader(), writable.getWriter(), options ?? {});
  }

  tee(): [ReadableStream<T>, ReadableStream<T>] {
    return new Tee(this.getReader(), this.#isBytes).branches;
  }

  values({ preventCancel = false }: { readonly preventCancel?: boolean } = {}): AsyncIterableIterator<T> {
    return iterate(this.getReader(), preventCancel);
  }

  [Symbol.asyncIterator](options?: { readonly preventCancel?: boolean }): AsyncIterableIterator<T> {
    return this.values(options);
  }
}

export class ReadableStreamDefaultReader<T = unknown> {
  readonly #core: ReadableCore<T>;
  readonly #lock: ReaderLock<T>;
  #isReleased = false;

  constructor(stream: ReadableStream<T>) {
    this.#core = coreOf(stream);
    this.#lock = this.#core.acquire();
  }

  get closed(): Promise<undefined> {
    return this.#lock.closed.promise;
  }

  async read(): Promise<ReadResult<T>> {
    this.#requireLock();
    return this.#core.read(this.#lock);
  }

  async cancel(reason?: unknown): Promise<undefined> {
    this.#requireLock();
    return this.#core.cancel(reason);
  }

  releaseLock(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#core.release(this.#lock);
  }

  #requireLock(): void {
    if (this.#isReleased) throw new TypeError('the reader was released: get a new one from the stream');
  }
}

type AnyIterator<T> = {
  next(): Promise<IteratorResult<T>> | IteratorResult<T>;
  return?(reason: unknown): unknown;
};

function openIterator<T>(iterable: AsyncIterable<T> | Iterable<T>): { iterator: AnyIterator<T>; isAsync: boolean } {
  const openAsync = (iterable as AsyncIterable<T>)[Symbol.asyncIterator];
  const open = openAsync ?? (iterable as Iterable<T>)[Symbol.iterator];
  if (typeof open !== 'function') throw new TypeError('ReadableStream.from takes an iterable');
  return { iterator: Reflect.apply(open, iterable, []), isAsync: open === openAsync };
}

async function* iterate<T>(
  reader: ReadableStreamDefaultReader<T>,
  preventCancel: boolean,
): AsyncGenerator<T, void, undefined> {
  let isOver = false;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        isOver = true;
        throw error;
      });
      isOver = done;
      if (done) return;
      yield value;
    }
  } finally {
    const cancelled = isOver || preventCancel ? undefined : reader.cancel();
    reader.releaseLock();
    await cancelled;
  }
}

/**
 * Two streams with the same chunks. The source is cancelled once both are cancelled. Of a stream of bytes the second gets copies,
 * because the reader of the first may change them.
 */
class Tee<T> {
  readonly branches: [ReadableStream<T>, ReadableStream<T>];
  readonly #reader: ReadableStreamDefaultReader<T>;
  readonly #isBytes: boolean;
  readonly #controllers: (ReadableStreamDefaultController<T> | null)[] = [null, null];
  readonly #reasons: unknown[] = [undefined, undefined];
  readonly #cancelled = createQuietPromise<unknown>();
  #isReading = false;
  #hasPendingPull = false;

  constructor(reader: ReadableStreamDefaultReader<T>, isBytes: boolean) {
    this.#reader = reader;
    this.#isBytes = isBytes;
    this.branches = [this.#openBranch(0), this.#openBranch(1)];
    reader.closed.then(
      () => this.#cancelled.resolve(undefined),
      (error) => {
        this.#each((controller) => controller.error(error));
        this.#cancelled.resolve(undefined);
      },
    );
  }

  #openBranch(index: number): ReadableStream<T> {
    const source: Source<T> = {
      start: (controller) => {
        this.#controllers[index] = controller;
      },
      pull: () => this.#read(),
      cancel: (reason) => this.#cancel(index, reason),
    };
    return new ReadableStream<T>(this.#isBytes ? { ...source, type: 'bytes' } : source);
  }

  #each(work: (controller: ReadableStreamDefaultController<T>, index: number) => void): void {
    for (const [index, controller] of this.#controllers.entries()) if (controller) work(controller, index);
  }

  async #read(): Promise<void> {
    if (this.#isReading) {
      this.#hasPendingPull = true;
      return;
    }
    this.#isReading = true;
    // The reader's `closed` passes an error on to the branches.
    const result = await this.#reader.read().catch(() => null);
    this.#isReading = false;
    if (result === null) return;
    const { done, value } = result;
    this.#each((controller, index) => {
      if (done) controller.close();
      else controller.enqueue(this.#isBytes && index > 0 ? ((value as Uint8Array).slice() as T) : value);
    });
    if (!this.#hasPendingPull) return;
    this.#hasPendingPull = false;
    if (!done) await this.#read();
  }

  #cancel(index: number, reason: unknown): Promise<unknown> {
    this.#controllers[index] = null;
    this.#reasons[index] = reason;
    if (this.#controllers.every((controller) => controller === null))
      this.#cancelled.resolve(callAsync(() => this.#reader.cancel(this.#reasons), undefined));
    return this.#cancelled.promise;
  }
}
// All iterators share this prototype. Freezing the classes does not reach it.
Object.freeze(iterate.prototype);
