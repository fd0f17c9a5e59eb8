/** The state of a readable stream, which plugins reach only through its stream, reader and controller. */
import { ChunkQueue, callAsync, createQuietPromise, type QueuingStrategy, readHighWaterMark } from './chunk-queue.ts';

export interface UnderlyingSource<Controller> {
  readonly type?: 'bytes' | undefined;
  start?(controller: Controller): unknown;
  pull?(controller: Controller): unknown;
  cancel?(reason: unknown): unknown;
}
export type ReadResult<T> = { done: false; value: T } | { done: true; value: undefined };

export interface ReaderLock<T> {
  readonly requests: PromiseWithResolvers<ReadResult<T>>[];
  closed: PromiseWithResolvers<undefined>;
}

export class ReadableCore<T> {
  state: 'readable' | 'closed' | 'errored' = 'readable';
  storedError: unknown = undefined;
  lock: ReaderLock<T> | null = null;
  /** Whether the stream was read from or cancelled. */
  isDisturbed = false;
  readonly #queue = new ChunkQueue<T>();
  readonly #highWaterMark: number;
  readonly #sizeOf: ((chunk: T) => number) | undefined;
  #source: UnderlyingSource<unknown> | null;
  #controller: unknown = null;
  #isStarted = false;
  #isClosing = false;
  #isPulling = false;
  #pullsAgain = false;

  constructor(source: UnderlyingSource<unknown>, strategy: QueuingStrategy<T>, highWaterMark: number) {
    this.#source = source;
    this.#sizeOf = strategy.size;
    this.#highWaterMark = readHighWaterMark(strategy, highWaterMark);
  }

  /** @throws what the source's `start` throws */
  start(controller: unknown): void {
    this.#controller = controller;
    const started = this.#source?.start?.(controller);
    Promise.resolve(started).then(
      () => {
        this.#isStarted = true;
        this.#pullIfNeeded();
      },
      (error) => this.fail(error),
    );
  }

  get desiredSize(): number | null {
    if (this.state === 'errored') return null;
    return this.state === 'closed' ? 0 : this.#highWaterMark - this.#queue.size;
  }

  get canEnqueue(): boolean {
    return this.state === 'readable' && !this.#isClosing;
  }

  /** Whether the source should deliver more. */
  get isHungry(): boolean {
    if (!this.canEnqueue || !this.#isStarted) return false;
    return (this.lock?.requests.length ?? 0) > 0 || (this.desiredSize ?? 0) > 0;
  }

  acquire(): ReaderLock<T> {
    if (this.lock) throw new TypeError('the stream is locked: it has a reader already');
    const lock: ReaderLock<T> = { requests: [], closed: createQuietPromise() };
    this.lock = lock;
    if (this.state === 'closed') lock.closed.resolve(undefined);
    if (this.state === 'errored') lock.closed.reject(this.storedError);
    return lock;
  }

  release(lock: ReaderLock<T>): void {
    const error = new TypeError('the reader was released');
    for (const request of lock.requests.splice(0)) request.reject(error);
    if (this.state !== 'readable') lock.closed = createQuietPromise();
    lock.closed.reject(error);
    this.lock = null;
  }

  read(lock: ReaderLock<T>): Promise<ReadResult<T>> {
    this.isDisturbed = true;
    if (this.state === 'errored') return Promise.reject(this.storedError);
    if (this.state === 'closed') return Promise.resolve({ done: true, value: undefined });
    if (this.#queue.length > 0) {
      const value = this.#queue.shift();
      if (this.#isClosing && this.#queue.length === 0) this.#closeNow();
      else this.#pullIfNeeded();
      return Promise.resolve({ done: false, value });
    }
    const request = Promise.withResolvers<ReadResult<T>>();
    lock.requests.push(request);
    this.#pullIfNeeded();
    return request.promise;
  }

  async cancel(reason: unknown): Promise<undefined> {
    this.isDisturbed = true;
    if (this.state === 'closed') return;
    if (this.state === 'errored') throw this.storedError;
    const source = this.#source;
    this.#closeNow();
    this.#queue.clear();
    await callAsync(source?.cancel, source, reason);
  }

  /** @throws TypeError when the stream takes no more chunks */
  enqueue(chunk: T): void {
    if (!this.canEnqueue) throw new TypeError('the stream is closed: nothing can be added to it');
    const request = this.lock?.requests.shift();
    if (request) request.resolve({ done: false, value: chunk });
    else this.#push(chunk);
    this.#pullIfNeeded();
  }

  /** @throws TypeError when it is closed already */
  close(): void {
    if (!this.canEnqueue) throw new TypeError('the stream is closed already');
    this.#isClosing = true;
    if (this.#queue.length === 0) this.#closeNow();
  }

  fail(error: unknown): void {
    if (this.state !== 'readable') return;
    this.state = 'errored';
    this.storedError = error;
    this.#queue.clear();
    this.#source = null;
    for (const request of this.lock?.requests.splice(0) ?? []) request.reject(error);
    this.lock?.closed.reject(error);
  }

  #push(chunk: T): void {
    try {
      this.#queue.push(chunk, this.#sizeOf === undefined ? 1 : Reflect.apply(this.#sizeOf, undefined, [chunk]));
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  #closeNow(): void {
    this.state = 'closed';
    this.#source = null;
    for (const request of this.lock?.requests.splice(0) ?? []) request.resolve({ done: true, value: undefined });
    this.lock?.closed.resolve(undefined);
  }

  #pullIfNeeded(): void {
    if (!this.isHungry || this.#source?.pull === undefined) return;
    if (this.#isPulling) {
      this.#pullsAgain = true;
      return;
    }
    this.#isPulling = true;
    callAsync(this.#source.pull, this.#source, this.#controller).then(
      () => {
        this.#isPulling = false;
        if (!this.#pullsAgain) return;
        this.#pullsAgain = false;
        this.#pullIfNeeded();
      },
      (error) => this.fail(error),
    );
  }
}
