let last: Promise<unknown> = Promise.resolve();

/** Starts work when all that was given before has ended, well or not. An installation has one process, so this is enough. */
export function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
  const turn = last.then(work, work);
  last = turn;
  return turn;
}
