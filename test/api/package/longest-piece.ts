/** Measures how long work keeps the event loop from others. */

/** The longest piece, as a share of all work; without pauses it is most of the work. */
export const SHARE_MAX = 1 / 4;

/** Runs work, and measures the processor time of the longest piece between two turns of the loop as a share of all. */
export async function measureLongestPiece(work: () => Promise<unknown>): Promise<number> {
  let [longest, total] = [0, 0];
  let before = process.threadCpuUsage();
  const endPiece = () => {
    // Read once: it is called thousands of times, and is most of what the measurement costs.
    const now = process.threadCpuUsage();
    const piece = now.user - before.user + now.system - before.system;
    before = now;
    total += piece;
    longest = Math.max(longest, piece);
  };
  let isOver = false;
  const watch = (): void => {
    endPiece();
    if (!isOver) setImmediate(watch);
  };
  watch();
  await work().finally(() => {
    isOver = true;
  });
  endPiece();
  return longest / total;
}
