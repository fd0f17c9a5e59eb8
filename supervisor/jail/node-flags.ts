/** Node's command line flags in a child: wall L2, and memory settings. */

/**
 * Semi-space of the young generation, megabytes. V8's default of 32 costs an idle child 9 MB for throughput that hooks do not
 * need. It starts at 1 and grows with use, so a child that was just loaded has the same size at 2, 4 and 8. On a quiet machine
 * the p99 of a hook was 148 µs at 2, 96 at 4 and 103 at 8.
 */
const SEMI_SPACE_MEGABYTES = 4;
/** V8's default, set explicitly because the main thread's stack of 8 MiB must stay far above it. */
const STACK_KILOBYTES = 984;

/**
 * Flags that save memory. Set in every child, also when a test takes wall L2 down. Some other flags would
 * make V8 reject the code cache of Node's own modules, and a start would take 10 ms of CPU time more. `--single-threaded` is one,
 * so its parts are given. Of the others, `sandbox-child/compiler-flags.ts` sets what plugins need later.
 */
const memoryFlags = (heapMegabytes: number): string[] => [
  `--max-old-space-size=${heapMegabytes}`,
  `--max-semi-space-size=${SEMI_SPACE_MEGABYTES}`,
  `--stack-size=${STACK_KILOBYTES}`,
  // V8's helper threads cost 0.7 MB each, and by default their number grows with the cores. 0 would mean that default.
  '--v8-pool-size=1',
  '--single-threaded-gc',
  '--no-concurrent-recompilation',
  '--no-concurrent-sparkplug',
  '--no-warnings',
  '--no-deprecation',
];

/**
 * Wall L2. `--permission` without grants: no file, network, child, worker, addon, WASI, FFI or inspector. Node allows reading
 * the entry file; `sandbox-child` drops that grant. `node:sqlite` ignores the permission model in this version, so a separate
 * flag disables it.
 */
const wallFlags: readonly string[] = [
  '--permission',
  '--no-experimental-sqlite',
  '--no-experimental-ffi',
  '--no-experimental-websocket',
  '--no-experimental-detect-module',
  '--no-experimental-require-module',
  '--no-experimental-global-navigator',
  '--no-addons',
  '--no-global-search-paths',
  // SIGUSR1 would open the inspector.
  '--disable-sigusr1',
  '--disable-proto=delete',
];

/**
 * Grants of an inspectable child: one thread, the network, without which that thread may not open its descriptor, and the inspector,
 * which can evaluate code in Node's own realm. The program drops the first two before the plugin is loaded. L1 does not confine the
 * inspector's user; L3 does.
 */
const inspectorFlags: readonly string[] = ['--allow-worker', '--allow-net', '--allow-inspector'];

/**
 * Returns Node's arguments before the script.
 *
 * @param heapMegabytes cap of the JavaScript heap
 * @param wall whether L2 is up; false only in tests of the other walls
 * @param inspected whether the child can be inspected
 */
export function nodeFlags(heapMegabytes: number, wall: boolean, inspected = false): string[] {
  return [...memoryFlags(heapMegabytes), ...(wall ? wallFlags : []), ...(wall && inspected ? inspectorFlags : [])];
}
