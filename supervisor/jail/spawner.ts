/**
 * Starts processes from a small one. A fork stops all that this process does for as long as its page tables are copied
 * and until the new process has had a processor: 10 to 70 ms at 200 MB on a busy machine, in which every other plugin
 * waits. So one helper of 60 MB forks in its place and passes the pipes on. It is started when it is first needed, lives
 * while there are children, and ends with this process; its children end with it. If it dies, they have all been killed,
 * and the next start brings another one.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Duplex, Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { inheritedDescriptors } from './inherited-descriptors.ts';
import type { FromSpawner, SpawnOrder, ToSpawner } from './spawn-orders.ts';

/** Beside this file: its source in the repository, built in the SDK's package. */
const ENDING = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
const PROGRAM = fileURLToPath(new URL(`spawner-process.${ENDING}`, import.meta.url));
/** It starts processes one after another and holds nothing. */
const FLAGS = [
  ...['--max-old-space-size=64', '--max-semi-space-size=1', '--single-threaded', '--no-warnings'],
  // The signal would open the inspector.
  '--disable-sigusr1',
];
/** Without children it ends after this: starts one after another share it. Milliseconds. */
const LINGER_MS = 250;

export interface Pipes {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Where its inspector speaks; null where it was not asked for one. */
  readonly inspector: Duplex | null;
}
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}
export interface Spawned {
  /** Rejects where it ended first. */
  readonly pipes: Promise<Pipes>;
  /** Process id, on the host, of the one inside. Rejects where it ended first. */
  readonly inside: Promise<number>;
  /** The end of the outermost process; without code and signal where it could not be started. Never rejects. */
  readonly ended: Promise<Exit>;
  /** SIGKILL to the outermost process. Safe at any time. */
  kill(): void;
}

let current: Helper | null = null;

/** Starts a process and returns at once. @throws where this process is out of descriptors */
export function spawnApart(order: SpawnOrder): Spawned {
  if (!current?.isOpen) current = new Helper();
  return current.spawn(order);
}

class Helper {
  readonly #process: ChildProcess;
  readonly #orders = new Map<number, Running>();
  #serial = 0;
  #lingering: NodeJS.Timeout | null = null;
  isOpen = true;

  constructor() {
    this.#process = startHelper();
    const lost = () => this.#lost();
    // Says by its end that this process has ended, and nothing else.
    (this.#process.stdin as Socket | null)?.on('error', () => undefined).unref();
    this.#process.once('error', lost).once('exit', lost).once('disconnect', lost);
    this.#process.on('message', (message, socket) => this.#receive(message as FromSpawner, socket as Socket));
  }

  spawn(order: SpawnOrder): Spawned {
    this.#serial += 1;
    const id = this.#serial;
    const running = new Running(order.inspectable);
    this.#orders.set(id, running);
    this.#keep(true);
    this.#send({ kind: 'spawn', id, order });
    const { pipes, inside, ended } = running;
    return {
      ...{ pipes: pipes.promise, inside: inside.promise, ended: ended.promise },
      kill: () => {
        if (this.#orders.has(id)) this.#send({ kind: 'kill', id });
      },
    };
  }

  #send(message: ToSpawner): void {
    this.#process.send(message, (error) => error && this.#lost());
  }

  #receive(message: FromSpawner, socket: Socket | undefined): void {
    const running = this.#orders.get(message.id);
    if (!running) return;
    if (message.kind === 'inside') running.inside.resolve(message.pid);
    // This process was out of descriptors: nobody could speak to that child.
    else if (message.kind === 'stream' && !socket) this.#send({ kind: 'kill', id: message.id });
    else if (message.kind === 'stream' && socket) running.take(message.fd, socket);
    else if (message.kind === 'ended') {
      this.#orders.delete(message.id);
      running.end(message);
      this.#keep(this.#orders.size > 0);
    }
  }

  /** Its children have been killed with it. */
  #lost(): void {
    if (!this.isOpen && this.#orders.size === 0) return;
    this.isOpen = false;
    this.#process.kill('SIGKILL');
    for (const running of this.#orders.values()) running.end({ code: null, signal: 'SIGKILL' });
    this.#orders.clear();
  }

  /** Only children keep this process alive, not the helper that waits for more of them. */
  #keep(isNeeded: boolean): void {
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

/** One order under way. */
class Running {
  readonly pipes = Promise.withResolvers<Pipes>();
  readonly inside = Promise.withResolvers<number>();
  readonly ended = Promise.withResolvers<Exit>();
  readonly #streams: Socket[] = [];
  readonly #inspectable: boolean;

  constructor(inspectable: boolean) {
    this.#inspectable = inspectable;
    // Told by `ended` too: who waits for less need not know.
    this.pipes.promise.catch(() => undefined);
    this.inside.promise.catch(() => undefined);
  }

  /** In the order of their descriptors. */
  take(fd: number, socket: Socket): void {
    // A broken pipe is the end of the child, which is told apart.
    socket.on('error', () => undefined);
    this.#streams[fd] = socket;
    const [stdin, stdout, stderr, inspector = null] = this.#streams;
    if (!stdin || !stdout || !stderr || (this.#inspectable && !inspector)) return;
    this.pipes.resolve({ stdin, stdout, stderr, inspector });
  }

  end({ code, signal }: Exit): void {
    const early = new Error('it ended before it was confined');
    this.inside.reject(early);
    this.pipes.reject(early);
    this.ended.resolve({ code, signal });
    const [stdin, ...outputs] = this.#streams;
    stdin?.destroy();
    // Last words are read; what nobody reads any more must not hold a descriptor.
    setImmediate(() => {
      for (const output of outputs) output.resume();
    });
  }
}

function startHelper(): ChildProcess {
  const leaks = inheritedDescriptors();
  // What this process was started with, by a shell or a service manager, is nothing for a plugin.
  const nothing = leaks.length > 0 ? openSync('/dev/null', 'r') : null;
  try {
    const stdio = covered(['pipe', 'ignore', 'inherit', 'ipc'], leaks, nothing);
    return spawn(process.execPath, [...FLAGS, PROGRAM], { detached: true, env: helperEnvironment(), cwd: '/', stdio });
  } finally {
    if (nothing !== null) closeSync(nothing);
  }
}

/** What lets it start fast. It starts every jail with an empty environment. */
function helperEnvironment(): Record<string, string> {
  const { NODE_COMPILE_CACHE } = process.env;
  return NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };
}

type Stdio = (number | 'pipe' | 'inherit' | 'ignore' | 'ipc')[];
/** Puts nothing in the place of each leak. What is not named stays closed. */
function covered(stdio: Stdio, leaks: readonly number[], nothing: number | null): Stdio {
  const last = Math.max(stdio.length - 1, ...leaks);
  return Array.from({ length: last + 1 }, (_, fd) => stdio[fd] ?? (leaks.includes(fd) ? nothing : null) ?? 'ignore');
}
