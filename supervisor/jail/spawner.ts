/**
 * Starts jails through a small helper process. A fork blocks the forking process while its page tables are copied and until the
 * new process is scheduled: 10 to 70 ms at 200 MB on a busy machine, in which all plugins wait. So a helper of 60 MB forks
 * instead and passes the pipes on. It is started on demand, lives while there are children, and ends with this process. Its
 * children end with it; if it dies, the next start creates another helper.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Duplex, Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { inheritedDescriptors } from './inherited-descriptors.ts';
import type { Limiter, LimiterKind } from './limiter.ts';
import type { FromSpawner, SpawnOrder, ToSpawner } from './spawn-orders.ts';
import { stopReading } from './stop-reading.ts';

/** The helper is TypeScript in the repository and JavaScript in the SDK's package. */
const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
const PROGRAM = fileURLToPath(new URL(`spawner-process.${EXTENSION}`, import.meta.url));
/** Flags that save memory. With `--single-threaded`, V8 would reject Node's own code cache: a start would take 8 ms more. */
const FLAGS = [
  ...['--max-old-space-size=64', '--max-semi-space-size=1', '--v8-pool-size=1', '--no-warnings'],
  // SIGUSR1 would open the inspector. Node 22.12, on which `bulkhead check` runs too, does not have the option.
  ...(process.allowedNodeEnvironmentFlags.has('--disable-sigusr1') ? ['--disable-sigusr1'] : []),
];
/** How long the helper stays without children, so that consecutive starts share it. Milliseconds. */
const LINGER_MS = 5_000;

export interface Pipes {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** The inspector's stream; null if the order was not inspectable. */
  readonly inspector: Duplex | null;
}
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}
interface End extends Exit {
  /** CPU time, milliseconds; 0 if it is unknown, because the helper was lost. */
  readonly processorMs: number;
}
export interface Spawned {
  /** Rejects if the process ends first. */
  readonly pipes: Promise<Pipes>;
  /** Process id of the process inside, on the host. Rejects if it ends first. */
  readonly inside: Promise<number>;
  /** The exit of the outermost process: `LOST` without a helper, neither code nor signal if it could not be started. Never rejects. */
  readonly ended: Promise<End>;
  /** Sends SIGKILL to the outermost process. Idempotent. */
  kill(): void;
}

/** The end of a process whose helper was lost or could not be started. To the restart policy it was killed from outside. */
const LOST: End = { code: null, signal: 'SIGKILL', processorMs: 0 };

/** By the kind of their limiter. A test of a package checks it without control groups, and runs it in one. */
const helpers = new Map<LimiterKind, Helper>();

/** Starts a process and returns at once. It starts in a start group of the limiter, if that has groups. Never throws. */
export function spawnApart(order: SpawnOrder, limiter: Limiter): Spawned {
  try {
    let helper = helpers.get(limiter.kind);
    if (!helper?.isOpen) {
      helper = new Helper(limiter);
      helpers.set(limiter.kind, helper);
    }
    return helper.spawn(order);
  } catch (error) {
    // This process is out of memory or descriptors.
    console.error(error);
    const running = new Running(order.inspectable);
    running.end(LOST);
    return running.toSpawned(() => undefined);
  }
}

class Helper {
  readonly #process: ChildProcess;
  readonly #orders = new Map<number, Running>();
  #serial = 0;
  #lingering: NodeJS.Timeout | null = null;
  isOpen = true;

  constructor(limiter: Limiter) {
    this.#process = startHelper();
    const startGroup = limiter.startGroup();
    // Without the group, its processes only compete more.
    if (this.#process.pid !== undefined) startGroup?.add(this.#process.pid).catch(() => undefined);
    this.#process.once('exit', () => startGroup?.remove()).once('error', () => startGroup?.remove());
    const onLost = () => this.#handleLoss();
    // The helper's stdin carries no data: its end tells the helper that this process has ended.
    (this.#process.stdin as Socket | null)?.on('error', () => undefined).unref();
    this.#process.once('exit', onLost).once('disconnect', onLost);
    this.#process.once('error', (error) => {
      console.error(error);
      onLost();
    });
    this.#process.on('message', (message, socket) => this.#receive(message as FromSpawner, socket as Socket));
  }

  spawn(order: SpawnOrder): Spawned {
    this.#serial += 1;
    const id = this.#serial;
    const running = new Running(order.inspectable);
    this.#orders.set(id, running);
    this.#updateLifetime(true);
    this.#send({ kind: 'spawn', id, order });
    return running.toSpawned(() => this.#kill(id));
  }

  #kill(id: number): void {
    if (this.#orders.has(id)) this.#send({ kind: 'kill', id });
  }

  #send(message: ToSpawner): void {
    // A helper that could not be started has no `send`; its `error` event follows.
    this.#process.send?.(message, (error) => error && this.#handleLoss());
  }

  #receive(message: FromSpawner, socket: Socket | undefined): void {
    const running = this.#orders.get(message.id);
    if (!running) {
      // The helper was lost.
      socket?.destroy();
      return;
    }
    switch (message.kind) {
      case 'stream':
        if (socket) running.addStream(message.fd, socket);
        return;
      case 'inside':
        running.inside.resolve(message.pid);
        // Node drops the message of a stream for which this process has no descriptor. Without it the child is of no use.
        if (!running.isConnected) this.#kill(message.id);
        return;
      case 'ended':
        this.#orders.delete(message.id);
        running.end(message);
        this.#updateLifetime(this.#orders.size > 0);
    }
  }

  /** Ends all orders: the children were killed with the helper. */
  #handleLoss(): void {
    if (!this.isOpen && this.#orders.size === 0) return;
    this.isOpen = false;
    this.#process.kill('SIGKILL');
    for (const running of this.#orders.values()) running.end(LOST);
    this.#orders.clear();
  }

  /** Keeps this process alive only while there are children, and stops an unused helper after a while. */
  #updateLifetime(isNeeded: boolean): void {
    if (this.#lingering) clearTimeout(this.#lingering);
    this.#lingering = null;
    if (isNeeded) {
      this.#process.ref();
      this.#process.channel?.ref();
      return;
    }
    this.#process.unref();
    this.#process.channel?.unref();
    this.#lingering = setTimeout(() => {
      this.isOpen = false;
      if (this.#process.connected) this.#process.disconnect();
    }, LINGER_MS).unref();
  }
}

/** One order in progress. */
class Running {
  readonly pipes = Promise.withResolvers<Pipes>();
  readonly inside = Promise.withResolvers<number>();
  readonly ended = Promise.withResolvers<End>();
  /** By their number in messages. */
  readonly #streams: (Socket | undefined)[] = [];
  readonly #inspectable: boolean;
  /** Whether all streams have arrived. */
  isConnected = false;

  constructor(inspectable: boolean) {
    this.#inspectable = inspectable;
    // `ended` reports the end as well, so these promises may have no handler.
    this.pipes.promise.catch(() => undefined);
    this.inside.promise.catch(() => undefined);
  }

  toSpawned(kill: () => void): Spawned {
    return { pipes: this.pipes.promise, inside: this.inside.promise, ended: this.ended.promise, kill };
  }

  addStream(fd: number, socket: Socket): void {
    // A broken pipe means that the child has ended, which `ended` reports.
    socket.on('error', () => undefined);
    // A socket, to which a child can write. A read of one byte costs hundreds, so nothing of it is read.
    if (fd === 0) stopReading(socket);
    this.#streams[fd] = socket;
    const [stdin, stdout, stderr, inspector = null] = this.#streams;
    if (!stdin || !stdout || !stderr || (this.#inspectable && !inspector)) return;
    this.isConnected = true;
    this.pipes.resolve({ stdin, stdout, stderr, inspector });
  }

  end({ code, signal, processorMs }: End): void {
    const early = new Error('it ended before it was confined');
    this.inside.reject(early);
    this.pipes.reject(early);
    this.ended.resolve({ code, signal, processorMs });
    const [stdin, ...outputs] = this.#streams;
    stdin?.destroy();
    // Drain the outputs: unread data would keep their descriptors open.
    setImmediate(() => {
      for (const output of outputs) output?.resume();
    });
  }
}

function startHelper(): ChildProcess {
  const leaks = inheritedDescriptors();
  // Plugins must not inherit descriptors that a shell or a service manager opened for this process.
  const devNull = leaks.length > 0 ? openSync('/dev/null', 'r') : null;
  try {
    const stdio = coverLeaks(['pipe', 'ignore', 'inherit', 'ipc'], leaks, devNull);
    return spawn(process.execPath, [...FLAGS, PROGRAM], {
      detached: true,
      env: getHelperEnvironment(),
      cwd: '/',
      stdio,
    });
  } finally {
    if (devNull !== null) closeSync(devNull);
  }
}

/** Passes the compile cache on, which makes the start faster. Jails get an empty environment. */
function getHelperEnvironment(): Record<string, string> {
  const { NODE_COMPILE_CACHE } = process.env;
  // Node would create the folder, and a DATA_DIR that was moved away could not be moved back.
  const isThere = NODE_COMPILE_CACHE !== undefined && existsSync(NODE_COMPILE_CACHE);
  return isThere ? { NODE_COMPILE_CACHE } : {};
}

type Stdio = (number | 'pipe' | 'inherit' | 'ignore' | 'ipc')[];
/** Puts /dev/null in the place of each leaked descriptor. */
function coverLeaks(stdio: Stdio, leaks: readonly number[], devNull: number | null): Stdio {
  const last = Math.max(stdio.length - 1, ...leaks);
  return Array.from({ length: last + 1 }, (_, fd) => stdio[fd] ?? (leaks.includes(fd) ? devNull : null) ?? 'ignore');
}
