/** `FAILPOINT=name:n` kills the process at the n-th pass of that step. The product's own entry files know nothing of it. */

/** @returns a function to call at each step */
export function failPoint(setting: string | undefined): (step: string) => void {
  const [, name, count] = /^([a-z.-]+):(\d+)$/.exec(setting ?? '') ?? [];
  let left = Number(count);
  return (step) => {
    if (step !== name) return;
    left -= 1;
    if (left === 0) process.kill(process.pid, 'SIGKILL');
  };
}
