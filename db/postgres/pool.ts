/** The door to PostgreSQL: one pool a process, transactions, and locks that end with them. */
import { Pool, type PoolClient } from 'pg';

/** A connection is either there quickly or the caller answers 503, milliseconds. */
const CONNECT_TIMEOUT_MS = 5_000;
/** No statement of a request or a worker may honestly take longer, milliseconds. Migrations use their own connection. */
const STATEMENT_TIMEOUT_MS = 30_000;
/** Waiting longer than this for a row lock means a stuck neighbour, milliseconds. */
const LOCK_TIMEOUT_MS = 10_000;
/** A transaction left open by a bug gives its locks back after this, milliseconds. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 60_000;
/** Connections a process holds at most: API and supervisor together stay well under PostgreSQL's default of 100. */
const DEFAULT_CONNECTIONS = 20;

export interface Database {
  readonly pool: Pool;
  /** Ends all connections; resolves when the last one is closed. Calling it again is harmless. */
  close(): Promise<void>;
}

export interface PoolOptions {
  /** Shown in `pg_stat_activity`, so that an operator sees whose connection it is. */
  readonly name: string;
  /** Connections at most. */
  readonly connections?: number;
  /** Told when an idle connection is lost; the pool replaces it by itself. Without a listener Node would end the process. */
  onError(error: Error): void;
}

/** A connection inside a transaction. */
export type Transaction = PoolClient;

/**
 * Makes a pool. Connects lazily: an unreachable server shows at the first query.
 *
 * @param url a `postgres://` address
 */
export function openPool(url: string, options: PoolOptions): Database {
  const pool = new Pool({
    connectionString: url,
    application_name: options.name,
    max: options.connections ?? DEFAULT_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
    keepAlive: true,
  });
  pool.on('error', options.onError);
  // The pool listens to idle connections only. One lost while lent out, between two queries, would end the process;
  // its borrower learns of it by the next query's rejection.
  pool.on('connect', (client) => client.on('error', () => undefined));
  let closing: Promise<void> | undefined;
  return {
    pool,
    close() {
      closing ??= pool.end();
      return closing;
    },
  };
}

/**
 * Runs `work` in one transaction: committed when it resolves, rolled back when it rejects.
 *
 * @param signal rolls back what was done when it has aborted before the commit
 * @returns what `work` resolved to, after the commit
 * @throws what `work` threw, or the error of BEGIN or COMMIT
 */
export async function inTransaction<T>(
  pool: Pool,
  work: (tx: Transaction) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query('BEGIN');
    const result = await work(client);
    signal?.throwIfAborted();
    await client.query('COMMIT');
    return result;
  } catch (error) {
    // A connection that cannot even roll back is in an unknown state: it is thrown away, never lent again.
    await client.query('ROLLBACK').catch((failure: Error) => {
      broken = failure;
    });
    throw error;
  } finally {
    client.release(broken);
  }
}

/**
 * Waits for the lock of that name and holds it until the transaction ends.
 *
 * @param name any text; two callers with the same name exclude each other, over all processes of this database
 */
export async function takeNamedLock(tx: Transaction, name: string): Promise<void> {
  await tx.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [name]);
}

/** Takes the lock of that name until the transaction ends, or answers false at once when another holds it. */
export async function tryLockNamed(tx: Transaction, name: string): Promise<boolean> {
  const found = await tx.query<{ held: boolean }>('SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS held', [
    name,
  ]);
  return found.rows[0]?.held === true;
}
