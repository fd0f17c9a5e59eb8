/** When V8 collects the garbage of API and supervisor. */
import { eventLoopUtilization } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { MIB, SECOND } from '../../sdk/contract/limits.ts';

/**
 * Heap growth beyond the live objects before a full collection, percent. V8's default is a few megabytes, which log
 * lines on their way to the database fill in a second, and each full collection pauses all hooks for 5 to 20 ms on a
 * busy machine. With four plugins flooding their logs, it reduces the p99 of a hook from 7.0 ms to 4.7
 * (`bench/neighbours.ts`). The cost: a supervisor with 40 MB of live objects may hold 80 MB of garbage.
 */
const GROWTH_PERCENT = 200;

/** Time between two looks at the heap. Milliseconds. */
const CHECK_MS = 5 * SECOND;
/** Above this share of its time the process is busy, and a pause would delay calls. */
const IDLE_UTILIZATION = 0.3;
/** Growth since the last collection from which one is worth its pause. Bytes. */
const WORTHWHILE_BYTES = 16 * MIB;

/**
 * Growth from which a collection is worth its pause on a busy process, too. After a peak V8 waits until the heap has three times what
 * lived at the peak: the supervisor then held 820 MB beside a hundred hostile accounts. Bytes.
 */
const WORTHWHILE_WHEN_BUSY_BYTES = 128 * MIB;

/** Reduces the number of full collections of the whole process. */
export const tuneGc = (): void => setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);

/**
 * Time after such a collection until the next, whatever the growth. Milliseconds. The memory of the last calls of a peak is garbage
 * only when they have ended, most of them within 30 seconds, and may be too little to be noticed as growth.
 */
const FOLLOW_UP_MS = 30 * SECOND;

interface HeapUse {
  /** Objects and buffers, garbage included. Bytes. */
  readonly usedBytes: number;
  /** `usedBytes` after the last collection. */
  readonly collectedBytes: number;
  /** Share of the time since the last look in which the event loop was busy, 0 to 1. */
  readonly utilization: number;
  /** Whether the peak has ended long enough ago for another collection. */
  readonly isFollowUpDue: boolean;
}

/** Whether the process holds enough that may be garbage, for how busy it is. */
export const isWorthCollecting = ({ utilization, isFollowUpDue, ...bytes }: HeapUse): boolean =>
  utilization < IDLE_UTILIZATION ? isFollowUpDue || hasGrown(bytes) : hasGrown(bytes, WORTHWHILE_WHEN_BUSY_BYTES);

const hasGrown = (
  { usedBytes, collectedBytes }: Pick<HeapUse, 'usedBytes' | 'collectedBytes'>,
  worthwhileBytes = WORTHWHILE_BYTES,
): boolean => usedBytes - collectedBytes > worthwhileBytes;

/**
 * Collects garbage when the process has become idle after a peak, or has grown by much. V8 collects only while objects are created, so an idle
 * process would hold the garbage of its last peak. A collection also starts V8's own memory reducer, which collects twice more and
 * returns the pages to the system within a minute.
 *
 * @param everyMs between two looks at the heap
 * @param followUpMs between the collection after a peak and the next
 * @returns ends it
 */
export function collectWhenIdle(everyMs = CHECK_MS, followUpMs = FOLLOW_UP_MS): () => void {
  setFlagsFromString('--expose-gc');
  const collect: NodeJS.GCFunction = runInNewContext('gc');
  // V8 rejects compiled code that was kept under other flags: what is imported later would be compiled at each start.
  setFlagsFromString('--no-expose-gc');
  let collectedBytes = measureUsedBytes();
  let followUpAt = Number.POSITIVE_INFINITY;
  let previous = eventLoopUtilization();
  const timer = setInterval(async () => {
    const now = eventLoopUtilization();
    const { utilization } = eventLoopUtilization(now, previous);
    previous = now;
    const bytes = { usedBytes: measureUsedBytes(), collectedBytes };
    const isFollowUpDue = performance.now() >= followUpAt;
    if (!isWorthCollecting({ ...bytes, utilization, isFollowUpDue })) return;
    followUpAt = hasGrown(bytes) ? performance.now() + followUpMs : Number.POSITIVE_INFINITY;
    // As a task of its own, which finds no stack to scan.
    await collect({ type: 'major', execution: 'async' });
    collectedBytes = measureUsedBytes();
  }, everyMs).unref();
  return () => clearInterval(timer);
}

function measureUsedBytes(): number {
  const { used_heap_size: heap, external_memory: external } = getHeapStatistics();
  return heap + external;
}
