/**
 * Whose frames are taken next, among the children that have said much at once. One turn at a time, and after it the loop
 * belongs to everybody else for as long as it took: a crowd of flooders gets half of the supervisor, however large it is.
 */

/** Takes frames; called once. */
type Turn = () => void;

const waiting: Turn[] = [];
let isGoing = false;

/** Calls `turn` when it is its turn, never at once. */
export function awaitTurn(turn: Turn): void {
  waiting.push(turn);
  if (isGoing) return;
  isGoing = true;
  setImmediate(next);
}

function next(): void {
  const started = performance.now();
  try {
    waiting.shift()?.();
  } finally {
    if (waiting.length === 0) isGoing = false;
    else setTimeout(next, performance.now() - started);
  }
}
