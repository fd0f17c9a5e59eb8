/** Bundles packages in a bounded pool of threads. Plugin code is built here, never run. */
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { Problem } from '../../sdk/contract/errors.ts';
import { type Bundle, buildFailed, bundlePackage, type RunTask } from './bundle.ts';
import type { Package } from './package-files.ts';
import type { SchemaFault } from './tool-schemas.ts';

/** Each thread has an esbuild of two threads beside it. */
const THREADS = Math.max(1, Math.min(4, availableParallelism() >> 1));
/** Builds waiting for a thread. At well under a second each this is what a client would wait through anyway. */
const QUEUE_MAX = 32;
/** From asking to having, waiting included. Milliseconds. */
const TOTAL_TIMEOUT_MS = 60_000;
const RETRY_AFTER_S = 2;

/** Its threads know several tasks by name, each with types of its own. */
type Pool = Piscina<unknown, never>;

export interface Bundler {
  /**
   * Builds the package's `index.ts`.
   *
   * @throws Problem `invalid_package` with places, or `bundler_busy` when the queue is full
   */
  bundle(of: Package): Promise<Bundle>;
  /** Checks tool parameters by tool name. @throws Problem `bundler_busy` when the queue is full */
  checkToolSchemas(schemas: Readonly<Record<string, unknown>>): Promise<readonly SchemaFault[]>;
  /** Builds under way, and those waiting for a thread. */
  load(): { readonly busy: number; readonly waiting: number };
  close(): Promise<void>;
}
interface BundlerOptions {
  readonly threads?: number;
  /** Builds that may wait; 0: none, a busy bundler refuses at once. */
  readonly queue?: number;
  /** Told when a thread ends by itself between tasks; the pool replaces it. */
  readonly onError?: (error: Error) => void;
}

/** Starts the pool. */
export function startBundler(options: BundlerOptions = {}): Bundler {
  const threads = options.threads ?? THREADS;
  const pool: Pool = new Piscina({
    filename: new URL('./bundler-worker.ts', import.meta.url).href,
    minThreads: 0,
    maxThreads: threads,
    // A thread that ended could not reap its esbuild, which would stay as a zombie: threads stay, and give their esbuild back.
    idleTimeout: Number.POSITIVE_INFINITY,
    // Piscina's other modes stop the thread's event loop between tasks, and with it the talk to esbuild.
    atomics: 'disabled',
    resourceLimits: { maxOldGenerationSizeMb: 512 },
    env: esbuildEnvironment(),
  });
  // Without a listener Node would end the process.
  pool.on('error', options.onError ?? (() => undefined));
  const places = threads + (options.queue ?? QUEUE_MAX);
  let taken = 0;
  const run: RunTask = async (name, task) => {
    // Counted here: Piscina leaves tasks that can be aborted out of its own limit.
    if (taken >= places) throw busy();
    taken += 1;
    try {
      return await pool.run(task, { name, signal: AbortSignal.timeout(TOTAL_TIMEOUT_MS) });
    } catch (error) {
      throw asProblem(error);
    } finally {
      taken -= 1;
    }
  };
  return {
    bundle: (of) => bundlePackage(run, of),
    checkToolSchemas: (schemas) => run<readonly SchemaFault[]>('checkToolSchemas', schemas),
    load: () => ({ busy: Math.min(taken, threads), waiting: Math.max(0, taken - threads) }),
    close: () => pool.close(),
  };
}

function asProblem(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  if (error.name === 'AbortError') return busy();
  return 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? buildFailed() : error;
}

/** All that a thread and its esbuild know of the environment: settings and addresses of the API stay out of it. */
function esbuildEnvironment(): Record<string, string> {
  const beside = createRequire(import.meta.resolve('esbuild'));
  return {
    ESBUILD_BINARY_PATH: fileURLToPath(new URL('./esbuild.sh', import.meta.url)),
    BULKHEAD_ESBUILD: beside.resolve(`@esbuild/${process.platform}-${process.arch}/bin/esbuild`),
    // Patterns of tool schemas are analysed in the thread itself, in no process of their own.
    RECHECK_BACKEND: 'pure',
    GOMAXPROCS: '2',
    GOMEMLIMIT: '512MiB',
  };
}

const busy = (): Problem =>
  new Problem('bundler_busy', 'The bundler has all it can take. Send the same request again shortly.', {
    retryAfter: RETRY_AFTER_S,
  });
