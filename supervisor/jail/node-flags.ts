/** How a plugin's Node is started: wall L2, and the flags that keep a child small. */

/**
 * New space, megabytes. V8 would grow it to 16 for throughput that a hook never needs, 9 MB of an idle child. It starts at
 * 1 and grows with use only, so a child that has just been loaded weighs the same at 2, 4 and 8. On a quiet machine the
 * p99 of a hook was 148 µs at 2, 96 at 4 and 103 at 8; on a busy one other things decide it.
 */
const SEMI_SPACE_MEGABYTES = 4;
/** Kilobytes of stack: V8's own default, said aloud because the 8 MiB of the main thread must stay far above it. */
const STACK_KILOBYTES = 984;

/** Memory, not safety: on in every child, also where a test takes wall L2 down. */
const small = (heapMegabytes: number): string[] => [
  `--max-old-space-size=${heapMegabytes}`,
  `--max-semi-space-size=${SEMI_SPACE_MEGABYTES}`,
  `--stack-size=${STACK_KILOBYTES}`,
  // One tenant, one core's worth of work: V8's helper threads cost 0.7 MB, and on a large machine there would be many.
  // (0 would mean "as many as you like".)
  '--v8-pool-size=1',
  '--single-threaded',
  // 1.1 MB less of every idle child, and no slower: a hook is never hot enough to be inlined for.
  '--optimize-for-size',
  '--no-warnings',
  '--no-deprecation',
];

/**
 * Wall L2. `--permission` without a single grant: no file, network, child, worker, addon, WASI, FFI or inspector. Node
 * lets the entry file itself be read; `sandbox-child` drops even that once it runs. `node:sqlite` ignores the
 * permission model on this version, so it is switched off by its own flag.
 */
const locked: readonly string[] = [
  '--permission',
  '--no-experimental-sqlite',
  '--no-experimental-ffi',
  '--no-experimental-websocket',
  '--no-experimental-detect-module',
  '--no-experimental-require-module',
  '--no-experimental-global-navigator',
  '--no-addons',
  '--no-global-search-paths',
  // The signal would open the inspector.
  '--disable-sigusr1',
  '--disable-proto=delete',
];

/**
 * What L2 gives up in a child whose owner debugs it: one thread, which drops the grant for more, and the inspector, which
 * evaluates whatever its owner says in Node's own realm. L1 does not bind who holds the inspector; L3 does.
 */
const inspectable: readonly string[] = ['--allow-worker', '--allow-inspector'];

/**
 * Node's arguments before the script.
 *
 * @param heapMegabytes cap of the JavaScript heap
 * @param wall whether L2 stands; false only in tests of the other walls
 * @param inspected whether the child can be inspected
 */
export function nodeFlags(heapMegabytes: number, wall: boolean, inspected = false): string[] {
  return [...small(heapMegabytes), ...(wall ? locked : []), ...(wall && inspected ? inspectable : [])];
}
