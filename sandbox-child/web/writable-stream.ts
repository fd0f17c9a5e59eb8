/** WritableStream for plugins, as the streams standard defines it. */
import { ChunkQueue, callAsync, createQuietPromise, type QueuingStrategy, readHighWaterMark } from './chunk-queue.ts';

interface Sink<T> {
  readonly type?: undefined;
  start?(controller: WritableStreamDefaultController): unknown;
  write?(chunk: T, controller: WritableStreamDefaultController): unknown;
  close?(): unknown;
  abort?(reason: unknown): unknown;
}
interface PendingWrite<T> {
  readonly chunk: T;
  readonly written: PromiseWithResolvers<undefined>;
}
interface PendingAbort {
  readonly done: PromiseWithResolvers<undefined>;
  readonly reason: unknown;
  /** The stream failed before the abort: the sink's `abort` is not called. */
  readonly isLate: boolean;
}

class WritableCore<T> {
  state: 'writable' | 'erroring' | 'errored' | 'closed' = 'writable';
  isLocked = false;
  ready = createQuietPromise<undefined>();
  closed = createQuietPromise<undefined>();
  readonly aborting = new AbortController();
  storedError: unknown = undefined;
  readonly #sink: Sink<T>;
  readonly #queue = new ChunkQueue<PendingWrite<T>>();
  readonly #highWaterMark: number;
  readonly #sizeOf: ((chunk: T) => number) | undefined;
  #controller: WritableStreamDefaultController | null = null;
  #isStarted = false;
  #isBusy = false;
  #isReady = false;
  /** Whether `closed` is settled. */
  #isOver = false;
  #closing: PromiseWithResolvers<undefined> | null = null;
  #abort: PendingAbort | null = null;

  constructor(sink: Sink<T>, strategy: QueuingStrategy<T>) {
    this.#sink = sink;
    this.#sizeOf = strategy.size;
    this.#highWaterMark = readHighWaterMark(strategy, 1);
    this.#updateReady();
  }

  /** @throws what the sink's `start` throws */
  start(controller: WritableStreamDefaultController): void {
    this.#controller = controller;
    const started = this.#sink.start?.(controller);
    Promise.resolve(started).then(
      () => {
        this.#isStarted = true;
        this.#advance();
      },
      (error) => {
        this.#isStarted = true;
        this.fail(error);
      },
    );
  }

  get desiredSize(): number | null {
    if (this.state === 'errored' || this.state === 'erroring') return null;
    return this.state === 'closed' ? 0 : this.#highWaterMark - this.#queue.size;
  }

  async write(chunk: T): Promise<undefined> {
    let size: unknown = 1;
    try {
      if (this.#sizeOf !== undefined) size = Reflect.apply(this.#sizeOf, undefined, [chunk]);
    } catch (error) {
      this.fail(error);
    }
    this.#requireOpen();
    const written = createQuietPromise<undefined>();
    try {
      this.#queue.push({ chunk, written }, size);
    } catch (error) {
      this.fail(error);
      throw error;
    }
    this.#updateReady();
    this.#advance();
    return written.promise;
  }

  async close(): Promise<undefined> {
    this.#requireOpen();
    this.#closing = createQuietPromise();
    this.#updateReady();
    const { promise } = this.#closing;
    this.#advance();
    return promise;
  }

  async abort(reason: unknown): Promise<undefined> {
    if (this.state === 'closed' || this.state === 'errored') return;
    this.aborting.abort(reason);
    if (this.#abort === null) {
      this.#abort = { done: createQuietPromise(), reason, isLate: this.state === 'erroring' };
      this.fail(reason);
    }
    return this.#abort?.done.promise;
  }

  /** Ends the stream with an error once the sink is idle. */
  fail(error: unknown): void {
    if (this.state !== 'writable') return;
    this.state = 'erroring';
    this.storedError = error;
    if (this.#isReady) this.ready = createQuietPromise();
    this.ready.reject(error);
    this.#advance();
  }

  /** Rejects what the last writer still waits for; the next one gets promises of its own. */
  release(error: Error): void {
    this.isLocked = false;
    if (this.state === 'writable' && !this.#isReady) {
      this.ready.reject(error);
      this.ready = createQuietPromise();
    }
    if (this.#isOver) return;
    this.closed.reject(error);
    this.closed = createQuietPromise();
  }

  #requireOpen(): void {
    if (this.state === 'errored' || this.state === 'erroring') throw this.storedError;
    if (this.state === 'closed' || this.#closing) throw new TypeError('the stream is closed: it cannot be written to');
  }

  #updateReady(): void {
    if (this.state !== 'writable') return;
    const isReady = this.#closing !== null || (this.desiredSize ?? 0) > 0;
    if (isReady === this.#isReady) return;
    this.#isReady = isReady;
    if (isReady) this.ready.resolve(undefined);
    else this.ready = createQuietPromise();
  }

  #advance(): void {
    if (!this.#isStarted || this.#isBusy) return;
    if (this.state === 'erroring') {
      this.#finishError();
      return;
    }
    if (this.state !== 'writable') return;
    const next = this.#queue.peek();
    if (next !== undefined) this.#writeNext(next);
    else if (this.#closing !== null) this.#closeSink(this.#closing);
  }

  #writeNext({ chunk, written }: PendingWrite<T>): void {
    this.#isBusy = true;
    callAsync(this.#sink.write, this.#sink, chunk, this.#controller).then(
      () => {
        this.#isBusy = false;
        this.#queue.shift();
        written.resolve(undefined);
        this.#updateReady();
        this.#advance();
      },
      (error) => {
        this.#isBusy = false;
        this.#queue.shift();
        written.reject(error);
        this.fail(error);
        this.#advance();
      },
    );
  }

  #closeSink(closing: PromiseWithResolvers<undefined>): void {
    this.#isBusy = true;
    callAsync(this.#sink.close, this.#sink).then(
      () => {
        this.#isBusy = false;
        this.state = 'closed';
        this.#isOver = true;
        closing.resolve(undefined);
        this.closed.resolve(undefined);
        this.#abort?.done.resolve(undefined);
      },
      (error) => {
        this.#isBusy = false;
        closing.reject(error);
        // The sink has ended by itself: its `abort` is not called.
        this.#abort?.done.reject(error);
        this.#abort = null;
        this.fail(error);
        this.#advance();
      },
    );
  }

  #finishError(): void {
    this.state = 'errored';
    while (this.#queue.length > 0) this.#queue.shift().written.reject(this.storedError);
    const end = (): void => {
      this.#isOver = true;
      this.#closing?.reject(this.storedError);
      this.closed.reject(this.storedError);
    };
    const abort = this.#abort;
    if (abort === null) end();
    else if (abort.isLate) {
      abort.done.reject(this.storedError);
      end();
    } else
      callAsync(this.#sink.abort, this.#sink, abort.reason)
        .then(() => abort.done.resolve(undefined), abort.done.reject)
        .finally(end);
  }
}

/** Only this file can create controllers. Plugins get them in `start` and `write`. */
const INTERNAL = Symbol('controller');

export class WritableStreamDefaultController {
  readonly #core: WritableCore<never>;

  constructor(token: symbol, core: WritableCore<never>) {
    if (token !== INTERNAL) throw new TypeError('a controller has no public constructor');
    this.#core = core;
  }
  get signal(): AbortSignal {
    return this.#core.aborting.signal;
  }
  error(reason?: unknown): void {
    this.#core.fail(reason);
  }
}

/** Returns the state of a stream, for other files of this folder. */
export let coreOf: <T>(stream: WritableStream<T>) => WritableCore<T>;

export class WritableStream<T = unknown> {
  readonly #core: WritableCore<T>;

  static {
    coreOf = (stream) => stream.#core;
  }

  constructor(sink?: Sink<T> | null, strategy: QueuingStrategy<T> = {}) {
    const to = sink ?? {};
    if (to.type !== undefined) throw new RangeError('a sink must not have a type');
    this.#core = new WritableCore<T>(to, strategy);
    this.#core.start(new WritableStreamDefaultController(INTERNAL, this.#core as unknown as WritableCore<never>));
  }

  get locked(): boolean {
    return this.#core.isLocked;
  }
  async abort(reason?: unknown): Promise<undefined> {
    if (this.locked) throw new TypeError('the stream is locked: abort it through its writer');
    return this.#core.abort(reason);
  }
  async close(): Promise<undefined> {
    if (this.locked) throw new TypeError('the stream is locked: close it through its writer');
    return this.#core.close();
  }
  getWriter(): WritableStreamDefaultWriter<T> {
    return new WritableStreamDefaultWriter(this);
  }
}

export class WritableStreamDefaultWriter<T = unknown> {
  #core: WritableCore<T> | null;
  readonly #released = createQuietPromise<undefined>();

  constructor(stream: WritableStream<T>) {
    const core = coreOf(stream);
    if (core.isLocked) throw new TypeError('the stream is locked: it has a writer already');
    core.isLocked = true;
    this.#core = core;
  }

  get ready(): Promise<undefined> {
    return this.#core?.ready.promise ?? this.#released.promise;
  }
  get closed(): Promise<undefined> {
    return this.#core?.closed.promise ?? this.#released.promise;
  }
  get desiredSize(): number | null {
    return this.#requireCore().desiredSize;
  }
  async write(chunk?: T): Promise<undefined> {
    return this.#requireCore().write(chunk as T);
  }
  async close(): Promise<undefined> {
    return this.#requireCore().close();
  }
  async abort(reason?: unknown): Promise<undefined> {
    return this.#requireCore().abort(reason);
  }
  releaseLock(): void {
    if (this.#core === null) return;
    const error = new TypeError('the writer was released');
    this.#core.release(error);
    this.#core = null;
    this.#released.reject(error);
  }

  #requireCore(): WritableCore<T> {
    if (this.#core === null) throw new TypeError('the writer was released: get a new one from the stream');
    return this.#core;
  }
}
