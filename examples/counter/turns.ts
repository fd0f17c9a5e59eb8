let last: Promise<unknown> = Promise.resolve();

/** Starts work when all earlier work has ended. Sufficient, because an installation has a single process. */
export function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
  const turn = last.then(work, work);
  last = turn;
  return turn;
}
