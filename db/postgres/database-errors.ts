/** What an error of the database means for whoever asked. */
import { isDatabaseAway } from '../../sdk/contract/problem-body.ts';

export type DatabaseFault =
  /** It cannot be reached, or is going down: try again. */
  | 'away'
  /** It gave up waiting for a lock, or broke a deadlock: try again. */
  | 'busy'
  /** A text holds what PostgreSQL cannot store. */
  | 'text';

const BUSY: readonly string[] = ['40001', '40P01', '55P03', '57014'];
const TEXT: readonly string[] = ['22021', '22P05'];
/** What the driver says of a connection or a pool that is being closed. */
const CLOSING = /^(Client has encountered a connection error|Cannot use a pool after calling end|Client was closed)/;

/** Null: it is no error of the database, or one that our own statement is to blame for. */
export function databaseFault(error: unknown): DatabaseFault | null {
  if (!(error instanceof Error)) return null;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (BUSY.includes(code)) return 'busy';
  if (TEXT.includes(code)) return 'text';
  if (isDatabaseAway(error) || CLOSING.test(error.message)) return 'away';
  // Node tries every address of a name and reports them together.
  if (error instanceof AggregateError) return error.errors.some((one) => databaseFault(one) === 'away') ? 'away' : null;
  return null;
}
