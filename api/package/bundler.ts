/** Bundles packages in a limited pool of threads. Builds plugin code without running it. */
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { FairQueue } from '../../service/timing/fair-queue.ts';
import { WAIT_FACTOR } from './build-time.ts';
import {
  BUILD_TIME_MS,
  type Bundle,
  buildFailed,
  bundlePackage,
  bundlerBusy,
  type CodePackage,
  type RunBuild,
} from './bundle.ts';
import type { BuildResult, BuildTask } from './bundler-worker.ts';

/** Each thread has an esbuild process with two threads. */
const THREADS = Math.max(1, Math.min(4, availableParallelism() >> 1));
/** Builds waiting for a thread: short enough that a client can wait for it. One account may take its share of them. */
const QUEUE_MAX = 32;
/** Limit of a build in the first threads; ordinary packages take well under a second, on a busy machine a few. Milliseconds. */
const QUICK_MS = 4_000;
/** A build that has waited this long does not begin. Milliseconds. */
const WAIT_MAX_MS = 40_000;
/**
 * A thread that does not end its build by itself this long after the build's time limit is ended. Long enough for a thread to start
 * on a busy machine, because an ended thread cannot reap its esbuild, which remains as a zombie until the process ends. Milliseconds.
 */
const GRACE_MS = 5_000;
const QUEUED = 'Too many builds are waiting.';

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
  /** Default: `QUICK_MS`. */
  readonly quickMs?: number;
  /** Limit of a build that took longer than that. Default: `BUILD_TIME_MS`. Milliseconds. */
  readonly slowMs?: number;
  /** The file that builds. Default: bundler-worker.ts. */
  readonly worker?: URL;
  /** Called when a thread ends unexpectedly between tasks; the pool replaces it. */
  readonly onError?: (error: Error) => void;
}

/**
 * A build that takes longer than usual is stopped and begins again in a thread where only such builds wait for it: one line of
 * types can keep esbuild busy for hours.
 */
export function startBundler(options: BundlerOptions = {}): Bundler {
  const { threads = THREADS, queue = QUEUE_MAX, quickMs = QUICK_MS, slowMs = BUILD_TIME_MS } = options;
  const { worker = new URL('./bundler-worker.ts', import.meta.url), onError = () => undefined } = options;
  const quick = new Builders({ threads, queue, worker, onError });
  const slow = new Builders({ threads: 1, queue, worker, onError });
  const runFor =
    (accountId: string): RunBuild =>
    async (task) => {
      const endsAt = performance.now() + WAIT_MAX_MS;
      if (!slow.queue.has(accountId)) {
        const result = await quick.run(accountId, { ...task, timeMs: quickMs }, endsAt);
        if (result.outcome !== 'late' && result.outcome !== 'starved') return result;
      }
      return slow.run(accountId, { ...task, timeMs: slowMs }, endsAt);
    };
  return {
    bundle: (of, accountId) => bundlePackage(runFor(accountId), of),
    load: () => ({
      busy: quick.queue.running + slow.queue.running,
      waiting: quick.queue.waiting + slow.queue.waiting,
    }),
    close: async () => void (await Promise.all([quick.close(), slow.close()])),
  };
}

type BuildersOptions = Required<Pick<BundlerOptions, 'threads' | 'queue' | 'worker' | 'onError'>>;

/** Threads that build, and the builds that wait for them. */
class Builders {
  readonly queue: FairQueue;
  readonly #pool: Piscina<BuildTask, BuildResult>;

  constructor({ threads, queue, worker, onError }: BuildersOptions) {
    this.queue = new FairQueue({ places: threads, waitingPlaces: queue });
    this.#pool = new Piscina<BuildTask, BuildResult>({
      filename: worker.href,
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
    this.#pool.on('error', onError);
  }

  /** @param endsAt the build does not begin after this time, on the monotonic clock @throws Problem */
  async run(accountId: string, task: BuildTask, endsAt: number): Promise<BuildResult> {
    if (!this.queue.hasRoom(accountId)) throw bundlerBusy(QUEUED);
    return this.queue.run(accountId, async () => {
      if (performance.now() > endsAt) throw bundlerBusy(QUEUED);
      const signal = AbortSignal.timeout(task.timeMs * WAIT_FACTOR + GRACE_MS);
      try {
        return await this.#pool.run(task, { name: 'build', signal });
      } catch (error) {
        if (signal.aborted) return { outcome: 'late' };
        throw toProblem(error);
      }
    });
  }

  close(): Promise<void> {
    return this.#pool.close();
  }
}

function toProblem(error: unknown): unknown {
  const isOfPackage = error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
  return isOfPackage ? buildFailed('died') : error;
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
    // What esbuild.sh allows, without Go's own 80 MB: garbage that is collected late, as on a busy machine, must not fail a build.
    GOMEMLIMIT: '340MiB',
  };
}
