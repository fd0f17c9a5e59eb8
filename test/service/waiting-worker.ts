/** A worker for tests: blocks its thread for the given time. */
export function wait(ms: number): number {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  return ms;
}
