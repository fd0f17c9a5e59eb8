/**
 * Reads values for a cache while its process is not notified of changes: from the database, or the cached value while the
 * database is unavailable.
 */
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';
import { within } from '../timing/within.ts';

/** A database that takes longer to answer counts as away, milliseconds: a call on the hot path waits for it. */
const ANSWER_MS = 2_000;

/**
 * @param reading a query, already sent
 * @param known what was read before, if anything was; null is a value
 * @param answerMs how long to wait if something is known, milliseconds
 * @throws the error of `reading`, unless something is known and the database is away
 */
export async function readOrLastKnown<T>(reading: Promise<T>, known: T | undefined, answerMs = ANSWER_MS): Promise<T> {
  if (known === undefined) return reading;
  try {
    const answer = await within(
      reading.then((value) => ({ value })),
      answerMs,
    );
    return answer ? answer.value : known;
  } catch (error) {
    if (classifyDatabaseError(error) === null) throw error;
    return known;
  }
}
