/** Receives the bodies of webhook requests. Keeps small ones in memory and writes larger ones to a file. */
import { randomUUIDv7 } from 'node:crypto';
import { type FileHandle, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { KIB, MIB, SECOND } from '../../sdk/contract/limits.ts';
import { makeFolder } from '../../sdk/files/make-folder.ts';
import { BodyChunks, readChunks } from '../../service/http/body-reader.ts';
import { ByteBudget } from '../../service/http/byte-budget.ts';
import { PlaceLimiter } from '../../service/http/place-limiter.ts';
import { FairQueue } from '../../service/timing/fair-queue.ts';
import { createFile } from './created-file.ts';

/** Limits of a webhook body. Vendors send 5 MiB in much less than 30 s; a slower client must not hold its connection. */
const BODY_BOUNDS = { maxBytes: 5 * MIB, withinMs: 30 * SECOND };
/** A body is written to a file when more than this of it is in memory. Bytes. */
const IN_MEMORY_MAX_BYTES = 64 * KIB;
/** Limits of the bodies that arrive or wait to be stored, in memory and on disk. */
const ARRIVING = { processBytes: 256 * MIB, accountBytes: 32 * MIB };
/**
 * Limits the bodies that are incomplete: each holds its connection for up to `withinMs`. A tenth of the connections of a process, and
 * half of them where it may open 4,096 files. Most bodies arrive together with their headers and are incomplete for no time.
 */
const INCOMPLETE = { places: 1_000, verb: 'receiving', works: 'incomplete webhook bodies', retryAfterS: 1 };

export class IncomingBodies {
  readonly #folder: string;
  readonly #budget = new ByteBudget(ARRIVING);
  readonly #incomplete = new PlaceLimiter(INCOMPLETE);
  /** Reads back and stores one large body at a time, so that only one is in memory. Accounts take turns. */
  readonly #storing = new FairQueue({ places: 1, waitingPlaces: Number.POSITIVE_INFINITY });

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async open(folder: string): Promise<IncomingBodies> {
    await makeFolder(folder);
    return new IncomingBodies(folder);
  }

  /**
   * Receives the body of a request of an account's channel and passes it to `store`.
   *
   * @throws Problem `too_large`; `bad_request` if the body ends early or takes too long; `rate_limited` or `unavailable` if
   *   too many bytes arrive at once, or too many bodies are incomplete; and what `store` throws
   */
  async receive(request: IncomingMessage, accountId: string, store: (body: Buffer) => Promise<void>): Promise<void> {
    const length = request.headers['content-length'];
    const chunks = new BodyChunks();
    let bytes = 0;
    let reserved = 0;
    let file: FileHandle | undefined;
    const reserve = (total: number): void => {
      if (total <= reserved) return;
      this.#budget.reserve(accountId, total - reserved);
      reserved = total;
    };
    const onChunk = (chunk: Buffer): void | Promise<void> => {
      bytes += chunk.byteLength;
      reserve(bytes);
      chunks.add(chunk);
      if (chunks.bytes > IN_MEMORY_MAX_BYTES) return moveToFile();
    };
    const moveToFile = async (): Promise<void> => {
      file ??= await this.#openUnnamedFile();
      await file.writev(chunks.takeAll());
    };
    try {
      // Refuses a body that exceeds the budget before reading any of it.
      reserve(Math.min(Number(length ?? 0), BODY_BOUNDS.maxBytes));
      const read = () => readChunks(request, length, BODY_BOUNDS, onChunk);
      await (request.complete ? read() : this.#incomplete.run(accountId, read));
      if (file === undefined) return await store(chunks.takeJoined());
      if (chunks.bytes > 0) await moveToFile();
      const complete = file;
      await this.#storing.run(accountId, async () => store(await readFromStart(complete, bytes)));
    } finally {
      this.#budget.release(accountId, reserved);
      await file?.close();
    }
  }

  /** Removes the file's name at once, so that the kernel deletes the file when the process ends, even by SIGKILL. */
  #openUnnamedFile(): Promise<FileHandle> {
    const path = join(this.#folder, randomUUIDv7());
    return createFile(path, 'wx+', () => rm(path));
  }
}

/** @throws Error if bytes are missing: a write to a full disk may store only some of them and report no error */
async function readFromStart(file: FileHandle, bytes: number): Promise<Buffer> {
  const body = Buffer.allocUnsafe(bytes);
  const { bytesRead } = await file.read(body, 0, bytes, 0);
  if (bytesRead < bytes)
    throw new Error(`${bytesRead} of ${bytes} bytes of a webhook body are on disk: check whether DATA_DIR is full`);
  return body;
}
