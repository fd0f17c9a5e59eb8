/** Bundles packages in a limited pool of threads. Builds plugin code without running it. */
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { Problem } from '../../sdk/contract/errors.ts';
import { FairQueue } from '../../service/timing/fair-queue.ts';
import { type Bundle, buildFailed, bundlePackage, type CodePackage, type RunBuild } from './bundle.ts';
import type { BuildResult, BuildTask } from './bundler-worker.ts';

/** Each thread has an esbuild process with two threads. */
const THREADS = Math.max(1, Math.min(4, availableParallelism() >> 1));
/** Builds waiting for a thread: short enough that a client can wait for it. One account may take its share of them. */
const QUEUE_MAX = 32;
/** From the request to the result, including the wait. Milliseconds. */
const TOTAL_TIMEOUT_MS = 60_000;
const RETRY_AFTER_S = 2;

export interface Bundler {
  /**
   * @param accountId the author, whose builds take turns with those of other accounts
   * @throws Problem `invalid_package` with places, or `bundler_busy` when too many builds of the account wait
   */
  bundle(of: CodePackage, accountId: string): Promise<Bundle>;
  load(): { readonly busy: number; readonly waiting: number };
  close(): Promise<void>;
}
interface BundlerOptions {
  readonly threads?: number;
  /** Maximum number of waiting builds; 0: a busy bundler rejects at once. */
  readonly queue?: number;
  /** Called when a thread ends unexpectedly between tasks; the pool replaces it. */
  readonly onError?: (error: Error) => void;
}

export function startBundler(options: BundlerOptions = {}): Bundler {
  const threads = options.threads ?? THREADS;
  const pool = new Piscina<BuildTask, BuildResult>({
    filename: new URL('./bundler-worker.ts', import.meta.url).href,
    minThreads: 0,
    maxThreads: threads,
    // A thread that ends cannot reap its esbuild, which would remain as a zombie. So threads stay and stop their
    // esbuild when idle.
    idleTimeout: Number.POSITIVE_INFINITY,
    // Piscina's other modes block the thread's event loop between tasks, which would stop the connection to esbuild.
    atomics: 'disabled',
    resourceLimits: { maxOldGenerationSizeMb: 512 },
    env: esbuildEnvironment(),
  });
  // Without a listener, an error event would end the process.
  pool.on('error', options.onError ?? (() => undefined));
  const queue = new FairQueue({ places: threads, waitingPlaces: options.queue ?? QUEUE_MAX });
  const runFor =
    (accountId: string): RunBuild =>
    async (task) => {
      if (!queue.hasRoom(accountId)) throw busy();
      const signal = AbortSignal.timeout(TOTAL_TIMEOUT_MS);
      try {
        return await queue.run(accountId, () => pool.run(task, { name: 'build', signal }));
      } catch (error) {
        throw toProblem(error);
      }
    };
  return {
    bundle: (of, accountId) => bundlePackage(runFor(accountId), of),
    load: () => ({ busy: queue.running, waiting: queue.waiting }),
    close: () => pool.close(),
  };
}

function toProblem(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  if (error.name === 'AbortError') return busy();
  return 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? buildFailed() : error;
}

/** The environment of a thread and its esbuild, without the API's settings and addresses. */
function esbuildEnvironment(): Record<string, string> {
  const beside = createRequire(import.meta.resolve('esbuild'));
  const { NODE_COMPILE_CACHE } = process.env;
  return {
    // With it a thread starts in 50 instead of 130 ms of processor time.
    ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }),
    ESBUILD_BINARY_PATH: fileURLToPath(new URL('./esbuild.sh', import.meta.url)),
    BULKHEAD_ESBUILD: beside.resolve(`@esbuild/${process.platform}-${process.arch}/bin/esbuild`),
    GOMAXPROCS: '2',
    GOMEMLIMIT: '512MiB',
  };
}

const busy = (): Problem =>
  new Problem('bundler_busy', 'Too many builds are waiting. Retry the same request shortly.', {
    retryAfter: RETRY_AFTER_S,
  });
