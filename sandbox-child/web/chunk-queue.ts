/** The queue of a stream, and the strategies that say how much it holds. */

export interface QueuingStrategy<T = unknown> {
  readonly highWaterMark?: number;
  readonly size?: (chunk: T) => number;
}

/** Chunks with their sizes. Removing the first takes constant time. */
export class ChunkQueue<T> {
  #chunks: { readonly chunk: T; readonly size: number }[] = [];
  #first = 0;
  /** The sizes of all chunks together. */
  size = 0;

  get length(): number {
    return this.#chunks.length - this.#first;
  }

  /** @throws RangeError for a size that no chunk has */
  push(chunk: T, given: unknown): void {
    const size = Number(given);
    if (!(size >= 0) || size === Number.POSITIVE_INFINITY)
      throw new RangeError(`a stream's size function returned ${String(given)}, which is not the size of a chunk`);
    this.#chunks.push({ chunk, size });
    this.size += size;
  }

  peek(): T | undefined {
    return this.#chunks[this.#first]?.chunk;
  }

  shift(): T {
    const found = this.#chunks[this.#first];
    if (found === undefined) throw new Error('the queue is empty');
    this.#first += 1;
    this.size = Math.max(0, this.size - found.size);
    if (this.#first * 2 > this.#chunks.length) {
      this.#chunks = this.#chunks.slice(this.#first);
      this.#first = 0;
    }
    return found.chunk;
  }

  clear(): void {
    this.#chunks = [];
    this.#first = 0;
    this.size = 0;
  }
}

/** Reads a strategy's `highWaterMark`. @throws RangeError for a negative one */
export function readHighWaterMark({ highWaterMark }: QueuingStrategy<never>, otherwise: number): number {
  if (highWaterMark === undefined) return otherwise;
  const mark = Number(highWaterMark);
  if (!(mark >= 0)) throw new RangeError(`${String(highWaterMark)} is not a highWaterMark: use 0 or more`);
  return mark;
}

export class CountQueuingStrategy {
  readonly #highWaterMark: number;

  constructor({ highWaterMark }: { readonly highWaterMark: number }) {
    this.#highWaterMark = Number(highWaterMark);
  }
  get highWaterMark(): number {
    return this.#highWaterMark;
  }
  get size(): (chunk: unknown) => number {
    return countChunk;
  }
}
// Frozen here, because freezing the class does not call its getters.
const countChunk = Object.freeze((_chunk: unknown): number => 1);

export class ByteLengthQueuingStrategy {
  readonly #highWaterMark: number;

  constructor({ highWaterMark }: { readonly highWaterMark: number }) {
    this.#highWaterMark = Number(highWaterMark);
  }
  get highWaterMark(): number {
    return this.#highWaterMark;
  }
  get size(): (chunk: { readonly byteLength: number }) => number {
    return measureChunk;
  }
}
const measureChunk = Object.freeze((chunk: { readonly byteLength: number }): number => chunk.byteLength);

/** Creates a promise whose rejection needs no handler. */
export function createQuietPromise<T>(): PromiseWithResolvers<T> {
  const created = Promise.withResolvers<T>();
  created.promise.catch(() => undefined);
  return created;
}

/** Calls a plugin's function; what it throws becomes a rejection. */
export async function callAsync(
  work: ((...values: never[]) => unknown) | undefined,
  owner: unknown,
  ...values: unknown[]
): Promise<unknown> {
  return work === undefined ? undefined : Reflect.apply(work, owner, values);
}
