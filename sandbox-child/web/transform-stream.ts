/** TransformStream for plugins, and the two that encode and decode text. */
import { callAsync, createQuietPromise, type QueuingStrategy, readHighWaterMark } from './chunk-queue.ts';
import { coreOf, ReadableStream, type ReadableStreamDefaultController } from './readable-stream.ts';
import { coreOf as coreOfWritable, WritableStream, type WritableStreamDefaultController } from './writable-stream.ts';

export interface Transformer<In, Out> {
  readonly readableType?: undefined;
  readonly writableType?: undefined;
  start?(controller: TransformStreamDefaultController<Out>): unknown;
  transform?(chunk: In, controller: TransformStreamDefaultController<Out>): unknown;
  flush?(controller: TransformStreamDefaultController<Out>): unknown;
  cancel?(reason: unknown): unknown;
}

/** Lets this file create controllers; plugins get them in `start`, `transform` and `flush`. */
const INTERNAL = Symbol('controller');

/** The operations of a controller. */
type TransformEnd<Out> = Pick<TransformCore<never, Out>, 'desiredSize' | 'enqueue' | 'fail' | 'terminate'>;

/** The state of both ends. The writable end waits until the readable one is read. */
class TransformCore<In, Out> {
  readonly readable: ReadableStream<Out>;
  readonly writable: WritableStream<In>;
  readonly #transformer: Transformer<In, Out>;
  readonly #controller: TransformStreamDefaultController<Out>;
  #target: ReadableStreamDefaultController<Out> | null = null;
  #source: WritableStreamDefaultController | null = null;
  #isWaiting = true;
  #change = createQuietPromise<undefined>();
  /** Resolves when `flush` or `cancel` has ended. Only the first of them is called. Null: none was called. */
  #finish: Promise<undefined> | null = null;

  constructor(
    transformer: Transformer<In, Out>,
    writableStrategy: QueuingStrategy<In>,
    readableStrategy: QueuingStrategy<Out>,
  ) {
    for (const type of ['readableType', 'writableType'] as const)
      if (transformer[type] !== undefined) throw new RangeError(`a transformer must not have a ${type}`);
    this.#transformer = transformer;
    this.#controller = new TransformStreamDefaultController<Out>(INTERNAL, this);
    const started = Promise.withResolvers<unknown>();
    this.readable = new ReadableStream<Out>(
      {
        start: (controller) => {
          this.#target = controller;
          return started.promise;
        },
        pull: () => {
          this.#setWaiting(false);
          return this.#change.promise;
        },
        cancel: (reason) => this.#finishOnce(() => this.#cancelReadable(reason)),
      },
      { ...readableStrategy, highWaterMark: readHighWaterMark(readableStrategy as QueuingStrategy<never>, 0) },
    );
    this.writable = new WritableStream<In>(
      {
        start: (controller) => {
          this.#source = controller;
          return started.promise;
        },
        write: (chunk) => this.#write(chunk),
        close: () => this.#finishOnce(() => this.#flush()),
        abort: (reason) => this.#finishOnce(() => this.#abortWritable(reason)),
      },
      writableStrategy,
    );
    started.resolve(transformer.start?.(this.#controller));
  }

  get desiredSize(): number | null {
    return coreOf(this.readable).desiredSize;
  }

  enqueue(chunk: Out): void {
    const core = coreOf(this.readable);
    if (!core.canEnqueue) throw new TypeError('the readable end takes nothing more: it has ended');
    try {
      core.enqueue(chunk);
    } catch (error) {
      this.#failSource(error);
      throw core.storedError;
    }
    if (!core.isHungry && !this.#isWaiting) this.#setWaiting(true);
  }

  fail(reason: unknown): void {
    this.#target?.error(reason);
    this.#failSource(reason);
  }

  terminate(): void {
    const core = coreOf(this.readable);
    if (core.canEnqueue) core.close();
    this.#failSource(new TypeError('the transform stream was terminated'));
  }

  async #write(chunk: In): Promise<void> {
    if (this.#isWaiting) {
      await this.#change.promise;
      // It waited until the stream ended: no reader gets the chunk.
      const { state, storedError } = coreOfWritable(this.writable);
      if (state === 'erroring') throw storedError;
    }
    const { transform } = this.#transformer;
    try {
      if (transform === undefined) this.enqueue(chunk as unknown as Out);
      else await Reflect.apply(transform, this.#transformer, [chunk, this.#controller]);
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  /** An end that closes while the other one is cancelled waits for the same call of the transformer. */
  #finishOnce(work: () => Promise<void>): Promise<undefined> {
    if (this.#finish !== null) return this.#finish;
    const finish = createQuietPromise<undefined>();
    // Before the call, which may end the other end.
    this.#finish = finish.promise;
    work().then(() => finish.resolve(undefined), finish.reject);
    return finish.promise;
  }

  async #flush(): Promise<void> {
    const core = coreOf(this.readable);
    try {
      await callAsync(this.#transformer.flush, this.#transformer, this.#controller);
    } catch (error) {
      this.fail(error);
      throw error;
    }
    if (core.state === 'errored') throw core.storedError;
    if (core.canEnqueue) core.close();
  }

  async #cancelReadable(reason: unknown): Promise<void> {
    try {
      await callAsync(this.#transformer.cancel, this.#transformer, reason);
    } catch (error) {
      this.#failSource(error);
      throw error;
    }
    const { state, storedError } = coreOfWritable(this.writable);
    if (state === 'errored') throw storedError;
    this.#failSource(reason);
  }

  async #abortWritable(reason: unknown): Promise<void> {
    const core = coreOf(this.readable);
    try {
      await callAsync(this.#transformer.cancel, this.#transformer, reason);
    } catch (error) {
      this.#target?.error(error);
      throw error;
    }
    if (core.state === 'errored') throw core.storedError;
    this.#target?.error(reason);
  }

  /** A writer that waits for a reader learns of the error. */
  #failSource(reason: unknown): void {
    this.#source?.error(reason);
    if (this.#isWaiting) this.#setWaiting(false);
  }

  #setWaiting(isWaiting: boolean): void {
    this.#isWaiting = isWaiting;
    this.#change.resolve(undefined);
    this.#change = createQuietPromise();
  }
}

export class TransformStreamDefaultController<Out = unknown> {
  readonly #core: TransformEnd<Out>;

  constructor(token: symbol, core: TransformEnd<Out>) {
    if (token !== INTERNAL) throw new TypeError('a controller has no public constructor');
    this.#core = core;
  }
  get desiredSize(): number | null {
    return this.#core.desiredSize;
  }
  enqueue(chunk: Out): void {
    this.#core.enqueue(chunk);
  }
  error(reason?: unknown): void {
    this.#core.fail(reason);
  }
  terminate(): void {
    this.#core.terminate();
  }
}

export class TransformStream<In = unknown, Out = unknown> {
  readonly #core: TransformCore<In, Out>;

  constructor(
    transformer?: Transformer<In, Out> | null,
    writableStrategy: QueuingStrategy<In> = {},
    readableStrategy: QueuingStrategy<Out> = {},
  ) {
    this.#core = new TransformCore(transformer ?? {}, writableStrategy, readableStrategy);
  }
  get readable(): ReadableStream<Out> {
    return this.#core.readable;
  }
  get writable(): WritableStream<In> {
    return this.#core.writable;
  }
}

export class TextEncoderStream {
  readonly #stream: TransformStream<string, Uint8Array>;

  constructor() {
    const encoder = new TextEncoder();
    /** The first half of a pair that the chunks cut in two. */
    let half = '';
    this.#stream = new TransformStream({
      transform(chunk, controller) {
        const text = half + String(chunk);
        half = /[\ud800-\udbff]$/.exec(text)?.[0] ?? '';
        const bytes = encoder.encode(half === '' ? text : text.slice(0, -1));
        if (bytes.byteLength > 0) controller.enqueue(bytes);
      },
      flush(controller) {
        if (half !== '') controller.enqueue(encoder.encode(half));
      },
    });
  }
  get encoding(): string {
    return 'utf-8';
  }
  get readable(): ReadableStream<Uint8Array> {
    return this.#stream.readable;
  }
  get writable(): WritableStream<string> {
    return this.#stream.writable;
  }
}

export class TextDecoderStream {
  readonly #decoder: TextDecoder;
  readonly #options: { readonly fatal: boolean; readonly ignoreBOM: boolean };
  readonly #stream: TransformStream<Uint8Array, string>;

  constructor(label = 'utf-8', options: { readonly fatal?: boolean; readonly ignoreBOM?: boolean } = {}) {
    this.#options = { fatal: Boolean(options.fatal), ignoreBOM: Boolean(options.ignoreBOM) };
    const decoder = new TextDecoder(label, this.#options);
    this.#decoder = decoder;
    this.#stream = new TransformStream({
      transform(chunk, controller) {
        const text = decoder.decode(chunk, { stream: true });
        if (text !== '') controller.enqueue(text);
      },
      flush(controller) {
        const text = decoder.decode();
        if (text !== '') controller.enqueue(text);
      },
    });
  }
  get encoding(): string {
    return this.#decoder.encoding;
  }
  get fatal(): boolean {
    return this.#options.fatal;
  }
  get ignoreBOM(): boolean {
    return this.#options.ignoreBOM;
  }
  get readable(): ReadableStream<string> {
    return this.#stream.readable;
  }
  get writable(): WritableStream<Uint8Array> {
    return this.#stream.writable;
  }
}
