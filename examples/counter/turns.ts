let last: Promise<unknown> = Promise.resolve();

/**
 * Starts work when all earlier work of this process has ended. After an update, the old process finishes its calls beside the new
 * one for up to a minute: then a message may be missed.
 */
export function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
  const turn = last.then(work, work);
  last = turn;
  return turn;
}
