/** Classifies errors of PostgreSQL and its driver: the only place that knows SQLSTATEs. */

type DatabaseErrorKind =
  /** The server cannot be reached or is shutting down. Retry. */
  | 'unavailable'
  /** A lock or statement timeout, a deadlock, a serialization failure, or no free connection. Retry. */
  | 'busy'
  /** A text holds a character that PostgreSQL cannot store. */
  | 'unstorable_text';

/** SQLSTATEs or their classes (connection exception, insufficient resources, operator intervention), and socket errors. */
const UNAVAILABLE = /^(08|53|57P0|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH)/;
/** The driver has no codes for these. */
const UNAVAILABLE_MESSAGE =
  /^(Connection terminated|Client has encountered a connection error|Cannot use a pool after calling end|Client was closed|timeout expired)/;
const BUSY_MESSAGE = 'timeout exceeded when trying to connect';
const BUSY: readonly string[] = ['40001', '40P01', '55P03', '57014'];
const UNSTORABLE_TEXT: readonly string[] = ['22021', '22P05'];
/** Data exception, integrity constraint violation and program limit exceeded: the same row fails again. */
const REJECTED_ROW = /^(22|23|54)/;
/** Raised by the trigger `refuse_over_limit`. */
const QUOTA_EXCEEDED = 'BH413';
const DUPLICATE_TABLE: readonly string[] = ['42P07', '42P17', '23505'];

/** Null: not an error of the database, or one that the statement itself caused. */
export function classifyDatabaseError(error: unknown): DatabaseErrorKind | null {
  if (!(error instanceof Error)) return null;
  const code = readCode(error);
  if (BUSY.includes(code) || error.message === BUSY_MESSAGE) return 'busy';
  if (UNSTORABLE_TEXT.includes(code)) return 'unstorable_text';
  if (UNAVAILABLE.test(code) || UNAVAILABLE_MESSAGE.test(error.message)) return 'unavailable';
  // Node tries every address of a host name and reports the errors together.
  const isUnavailable = error instanceof AggregateError && error.errors.some(isDatabaseUnavailable);
  return isUnavailable ? 'unavailable' : null;
}

export const isDatabaseUnavailable = (error: unknown): boolean => classifyDatabaseError(error) === 'unavailable';

/** Whether PostgreSQL rejected the values of a row, so that a retry fails as well. */
export const isRejectedRow = (error: unknown): boolean => REJECTED_ROW.test(readCode(error));

/** `CREATE TABLE IF NOT EXISTS` fails like this when two processes create the same table at once. */
export const isDuplicateTable = (error: unknown): boolean => DUPLICATE_TABLE.includes(readCode(error));

/** The exceeded quota as the trigger `refuse_over_limit` describes it; null: another error. */
export function readExceededQuota(error: unknown): unknown {
  return readCode(error) === QUOTA_EXCEEDED ? JSON.parse(String((error as { detail?: unknown }).detail)) : null;
}

const readCode = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '');
