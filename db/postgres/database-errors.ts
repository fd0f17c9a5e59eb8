/** Classifies errors of PostgreSQL and its driver. No other file knows SQLSTATEs. */

export type DatabaseErrorKind =
  /** The server cannot be reached, does not let this process in, or accepts no writes. Retry. */
  | 'unavailable'
  /** A lock or statement timeout, a deadlock, a serialization failure, or no free connection. Retry. */
  | 'busy'
  /** A text holds a character that PostgreSQL cannot store. */
  | 'unstorable_text'
  /** PostgreSQL rejected the values of the row. A retry fails as well. */
  | 'rejected_row';

const FEATURE_NOT_SUPPORTED = '0A000';
/** The kind of a SQLSTATE, by the longest entry with which it begins. */
const KINDS: Readonly<Record<string, DatabaseErrorKind>> = {
  // Connection exception.
  '08': 'unavailable',
  // Data exception.
  '22': 'rejected_row',
  '22021': 'unstorable_text',
  '22P05': 'unstorable_text',
  // Integrity constraint violation.
  '23': 'rejected_row',
  // Read-only transaction: a standby, or a server that its operator or a full disk made read-only.
  '25006': 'unavailable',
  // The server ended the connection of a transaction that was idle or lasted too long: this machine may have been suspended.
  '25P03': 'unavailable',
  '25P04': 'unavailable',
  // Invalid authorization: the password was changed, or the role may not log in now.
  '28': 'unavailable',
  // The database does not exist: it is being restored or renamed.
  '3D000': 'unavailable',
  '40001': 'busy',
  '40P01': 'busy',
  // Insufficient privilege: the role may no longer connect, or not write to a table.
  '42501': 'unavailable',
  // Insufficient resources: disk, memory or connections.
  '53': 'unavailable',
  // Program limit exceeded.
  '54': 'rejected_row',
  // Object not in prerequisite state: the database accepts no connections.
  '55000': 'unavailable',
  '55P03': 'busy',
  '57014': 'busy',
  // Operator intervention: the server shuts down, starts, or ended the connection.
  '57P': 'unavailable',
  // System error, such as a failed read or write of a file.
  '58': 'unavailable',
};
const LONGEST_ENTRY = 5;
const SQLSTATE = /^[0-9A-Z]{5}$/;
const SOCKET = /^(ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)/;
/** Messages of the driver for errors without a code. */
const UNAVAILABLE_MESSAGE =
  /^(Connection terminated|Client has encountered a connection error|Cannot use a pool after calling end|Client was closed|timeout expired|Query read timeout)/;
const CONNECT_TIMEOUT_MESSAGE = 'timeout expired';
const BUSY_MESSAGE = 'timeout exceeded when trying to connect';
/** Raised by the trigger `refuse_over_limit`. */
const QUOTA_EXCEEDED = 'BH413';
/** Raised by `hold_shard`. */
const OWNERSHIP_LOST = 'BH409';
const LOCK_REFUSED: readonly string[] = ['40P01', '55P03'];
const INSUFFICIENT_PRIVILEGE = '42501';
const CHECK_VIOLATION = '23514';
const MISSING_OBJECT: readonly string[] = ['3F000', '42P01', '42703', '42883'];
const DUPLICATE_TABLE: readonly string[] = ['42P07', '42P17', '42710', '23505'];

/** Whether a connection of its own, outside of a pool, was not established in time. */
export const isConnectTimeout = (error: unknown): boolean =>
  error instanceof Error && error.message === CONNECT_TIMEOUT_MESSAGE;

/** Creates the error that the pool itself throws when no connection becomes free in time. */
export const createBusyError = (): Error => new Error(BUSY_MESSAGE);

/** @returns null if the error is not the database's, or if the statement itself caused it */
export function classifyDatabaseError(error: unknown): DatabaseErrorKind | null {
  if (!(error instanceof Error)) return null;
  const code = readCode(error);
  if (error.message === BUSY_MESSAGE) return 'busy';
  if (SOCKET.test(code) || UNAVAILABLE_MESSAGE.test(error.message)) return 'unavailable';
  const kind = findKind(code);
  if (kind !== null) return kind;
  // Node tries every address of a host name and reports the errors together.
  const isUnavailable = error instanceof AggregateError && error.errors.some(isDatabaseUnavailable);
  return isUnavailable ? 'unavailable' : null;
}

function findKind(code: string): DatabaseErrorKind | null {
  if (!SQLSTATE.test(code)) return null;
  for (let length = LONGEST_ENTRY; length > 0; length -= 1) {
    const kind = KINDS[code.slice(0, length)];
    if (kind !== undefined) return kind;
  }
  return null;
}

/** Whether a named statement returns columns of other types than when its connection parsed it: a migration has changed them. */
export function isStatementOutdated(error: unknown): boolean {
  const { code, routine } = error as { readonly code?: unknown; readonly routine?: unknown };
  return code === FEATURE_NOT_SUPPORTED && routine === 'RevalidateCachedQuery';
}

export const isDatabaseUnavailable = (error: unknown): boolean => classifyDatabaseError(error) === 'unavailable';

/** Whether PostgreSQL rejected the values of a row, so that a retry fails as well. */
export function isRejectedRow(error: unknown): boolean {
  const kind = classifyDatabaseError(error);
  return kind === 'rejected_row' || kind === 'unstorable_text';
}

/** `CREATE TABLE IF NOT EXISTS` fails like this when two processes create the same table at once. */
export const isDuplicateTable = (error: unknown): boolean => DUPLICATE_TABLE.includes(readCode(error));

/** Whether no partition takes a row. The error of a violated CHECK constraint has the same code, and names the constraint. */
export const isMissingPartition = (error: unknown): boolean =>
  readCode(error) === CHECK_VIOLATION && (error as { constraint?: string }).constraint === undefined;

/** Whether PostgreSQL aborted this transaction to resolve a deadlock, or did not grant a lock in time. */
export const isLockRefused = (error: unknown): boolean => LOCK_REFUSED.includes(readCode(error));

/** Whether a statement names a table or column that the database lacks. */
export const isMissingObject = (error: unknown): boolean => MISSING_OBJECT.includes(readCode(error));

/** Whether another supervisor owns the account by now, so that this write must not be made. */
export const isOwnershipLost = (error: unknown): boolean => readCode(error) === OWNERSHIP_LOST;

/** Whether the work did not fail itself: the database is unavailable or busy, or another supervisor owns the account by now. */
export function isInterruption(error: unknown): boolean {
  const kind = classifyDatabaseError(error);
  return isOwnershipLost(error) || kind === 'unavailable' || kind === 'busy';
}

/** Whether a pooler refused the options of a connection, which PostgreSQL accepts. */
export const isPoolerRefusal = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith('unsupported startup parameter');
export const POOLER_REFUSAL =
  'the address of the database is that of a connection pooler. Keep it, and set DATABASE_SESSION_URL to the address of PostgreSQL itself';

export const isPermissionDenied = (error: unknown): boolean => readCode(error) === INSUFFICIENT_PRIVILEGE;

/** The exceeded quota as the trigger `refuse_over_limit` describes it; null: another error. */
export function readExceededQuota(error: unknown): unknown {
  return readCode(error) === QUOTA_EXCEEDED ? JSON.parse(String((error as { detail?: unknown }).detail)) : null;
}

const readCode = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '');

/** The error's message. Node tries every address of a host name and reports the errors together, without a message: then the first one's. */
export function readFirstMessage(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return first instanceof Error ? first.message : String(first);
}
