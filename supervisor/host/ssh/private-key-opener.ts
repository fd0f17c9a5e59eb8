/** Opens private keys in a thread: a key says itself how many rounds its decryption takes, up to years. */
import { SECOND } from '../../../sdk/contract/limits.ts';
import { KeyedLocks } from '../../../service/timing/keyed-locks.ts';
import { singleWorkerPool } from '../../../service/timing/single-worker-pool.ts';
import type { PrivateKeyText } from './private-key.ts';

/** A key of `ssh-keygen` takes less than a second on a machine with nothing else to do. Milliseconds. */
const OPEN_MS = 20 * SECOND;
const THREAD_HEAP_MB = 64;
const QUEUE_MAX = 100;

export class PrivateKeyOpener {
  readonly #thread = singleWorkerPool<PrivateKeyText, string | null>(
    new URL('./private-key-worker.ts', import.meta.url),
    { name: 'openPrivateKey', heapMegabytes: THREAD_HEAP_MB, maxQueue: QUEUE_MAX },
  );
  readonly #locks = new KeyedLocks();
  readonly #openMs: number;

  constructor(openMs = OPEN_MS) {
    this.#openMs = openMs;
  }

  /**
   * Opens one key of an account at a time.
   *
   * @returns the key without its passphrase; null: it is none that can be read; `late`: its decryption was stopped
   */
  open(accountId: string, key: PrivateKeyText): Promise<string | null | 'late'> {
    return this.#locks.run(accountId, async () => {
      const late = AbortSignal.timeout(this.#openMs);
      try {
        return await this.#thread.run(key, { signal: late });
      } catch (error) {
        if (late.aborted) return 'late';
        throw error;
      }
    });
  }

  close(): Promise<void> {
    return this.#thread.destroy();
  }
}
