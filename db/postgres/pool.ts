/** The connection pool (direct, or through a pooler in transaction mode), transactions, fences and named locks. */
import { Client, type ClientConfig, Pool, type PoolClient, type PoolConfig, types } from 'pg';
import { KeyedLocks } from '../timing/keyed-locks.ts';
import { isDatabaseUnavailable, isStatementOutdated } from './database-errors.ts';
import { KEEPALIVE, KEEPALIVE_OPTIONS } from './keepalive.ts';
import { asTransaction, ConnectionShares, findLimitedOwner, type PlaceOwner } from './shares.ts';

/** A server that does not accept a connection within this time counts as unavailable. Milliseconds. */
export const CONNECT_TIMEOUT_MS = 5_000;
/** A caller waits this long while others use all connections; then the server is busy, not unavailable. Milliseconds. */
const WAIT_TIMEOUT_MS = 30_000;
/** Limit of a statement of a request or a worker. Migrations use a connection of their own, without it. Milliseconds. */
const STATEMENT_TIMEOUT_MS = 30_000;
/**
 * A server that can be reached ends a statement before this. One that vanished is noticed by it: TCP sends unconfirmed bytes
 * again for up to 15 minutes. Milliseconds.
 */
const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5_000;
/** A longer wait for a row lock means that another transaction is stuck. Milliseconds. */
const LOCK_TIMEOUT_MS = 10_000;
/** Releases the locks of a transaction that a bug left open. Milliseconds. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 60_000;
/**
 * `join_collapse_limit`: the planner compares all orders of up to this many joined tables; for more, it keeps the order of the
 * statement. An installation is read from eight tables: comparing all orders took 28 to 57 ms a query on a busy machine, and
 * keeping the order 1 to 2 ms.
 */
const JOINS_COMPARED = 5;
/** One statement takes one processor: a large one of an account leaves the others to those of other accounts. */
const PLANNER_SETTINGS = {
  join_collapse_limit: JOINS_COMPARED,
  max_parallel_workers_per_gather: 0,
  // Statements are short, and are planned too often to compile them.
  jit: 'off',
} as const;
/** Keeps API and supervisor together well below PostgreSQL's default of 100. */
const DEFAULT_CONNECTIONS = 20;
/**
 * Connections that stay open while they are idle. A request for which the pool opens a connection waits for that one, even if
 * another becomes free meanwhile: up to 700 ms beside 400 half-sent bodies.
 */
const KEPT_CONNECTIONS = 4;

export interface Database {
  readonly pool: Pool;
  /** For connections outside the pool that keep a state, such as LISTEN. */
  readonly session: SessionSource;
  /** Opens the connections that the pool keeps. Where that fails, the next query that needs one says so. */
  openKept(): Promise<void>;
  /** Closes all connections. Idempotent. */
  close(): Promise<void>;
}

/** The options of a connection to the server itself. */
export interface SessionSource {
  readonly options: ClientConfig;
}

interface PoolOptions extends PlanningOptions {
  /** Address of the server itself, when `url` is that of a pooler in transaction mode. */
  readonly sessionUrl?: string | undefined;
  /** Shown in `pg_stat_activity`. */
  readonly name: string;
  readonly connections?: number;
  /** Time after which a statement without an answer fails, and its connection is closed. Default: 35 s. */
  readonly queryTimeoutMs?: number;
  /** Called when an idle connection is lost. The pool replaces it. */
  onError(error: Error): void;
}

/** The pool's timeout covers the wait for a free connection and connecting together. This client limits connecting alone. */
class PooledClient extends Client {
  constructor(config: ClientConfig = {}) {
    super({ ...config, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  }
}

/**
 * A pooler can run each transaction on a different connection to the server, so a prepared statement of an earlier transaction
 * may be missing. This client drops the names of statements, so that none is kept.
 */
class UnnamingClient extends PooledClient {
  override query: Client['query'] = ((query: unknown, ...rest: unknown[]) =>
    Reflect.apply(Client.prototype.query, this, [
      isNamed(query) ? { ...query, name: undefined } : query,
      ...rest,
    ])) as Client['query'];
}

/**
 * PostgreSQL keeps the plans of named statements until it analyzes their tables, which can take more than a minute. A plan for a
 * table that was small reads all of it: the claim of a delivery takes 100 ms of 40,000 deliveries, and not 1. Milliseconds.
 */
const PLANS_MAX_AGE_MS = 5_000;

interface PlanningOptions {
  /** After this, named statements are planned again. Default: 5 s. */
  readonly plansMaxAgeMs?: number | undefined;
}

/** Makes PostgreSQL plan named statements again every few seconds. It keeps their parse trees. */
class PlanningClient extends PooledClient {
  readonly #maxAgeMs: number;
  #plannedAt = performance.now();

  constructor(config: ClientConfig & PlanningOptions = {}) {
    super(config);
    this.#maxAgeMs = config.plansMaxAgeMs ?? PLANS_MAX_AGE_MS;
  }

  override query: Client['query'] = ((query: unknown, ...rest: unknown[]) => {
    if (isNamed(query) && performance.now() - this.#plannedAt >= this.#maxAgeMs) this.#discardPlans();
    return Reflect.apply(Client.prototype.query, this, [query, ...rest]);
  }) as Client['query'];

  /** Not awaited: the driver sends the statements of a client in order, and limits the time of both from now on. */
  #discardPlans(): void {
    this.#plannedAt = performance.now();
    const discarded: Promise<unknown> = Reflect.apply(Client.prototype.query, this, ['DISCARD PLANS']);
    // In a failed transaction, or on a lost connection. The statement that follows says so.
    discarded.catch(() => {
      this.#plannedAt = Number.NEGATIVE_INFINITY;
    });
  }
}

/** Also excludes queries of the driver's own classes, which the caller submits. */
const isNamed = (query: unknown): query is object =>
  typeof query === 'object' && query !== null && 'name' in query && 'text' in query && !('submit' in query);

type ConnectCallback = Parameters<Pool['connect']>[0];

/** Gives work of an account a connection only within the account's share. `query` and `inTransaction` connect here, too. */
class SharedPool extends Pool {
  readonly #shares: ConnectionShares;

  constructor(
    options: PoolConfig & PlanningOptions & { readonly max: number; readonly connectionTimeoutMillis: number },
  ) {
    super(options);
    this.#shares = new ConnectionShares(options.max, options.connectionTimeoutMillis);
  }

  get waitingForPlace(): number {
    return this.#shares.waiting;
  }

  get waitingForShare(): number {
    return this.#shares.waitingForShare;
  }

  override connect(): Promise<PoolClient>;
  override connect(callback: ConnectCallback): void;
  override connect(callback?: ConnectCallback): Promise<PoolClient> | undefined {
    const owner = findLimitedOwner();
    if (owner === null) {
      if (!callback) return super.connect();
      super.connect(callback);
      return undefined;
    }
    const connecting = this.#connectFor(owner);
    if (!callback) return connecting;
    connecting.then(
      (client) => callback(undefined, client, client.release),
      (error: Error) => callback(error, undefined, () => undefined),
    );
    return undefined;
  }

  async #connectFor(owner: PlaceOwner): Promise<PoolClient> {
    await this.#shares.claim(owner);
    try {
      const client = await super.connect();
      // The pool gives the connection a new `release` each time, and refuses a second call of it.
      const { release } = client;
      client.release = (error) => {
        release(error);
        this.#shares.release(owner);
      };
      return client;
    } catch (error) {
      this.#shares.release(owner);
      throw error;
    }
  }
}

class PoolBehindPooler extends SharedPool {}

/** How many wait for a connection, those that wait for their account's share included. */
export const countWaiting = (pool: Pick<Pool, 'waitingCount'>): number =>
  pool.waitingCount + (pool instanceof SharedPool ? pool.waitingForPlace : 0);

/** How many wait only because their account, the only one that waits, uses as many connections as it may. */
export const countWaitingForShare = (pool: Pick<Pool, 'waitingCount'>): number =>
  pool instanceof SharedPool ? pool.waitingForShare : 0;

const TIMEOUTS = {
  statement_timeout: STATEMENT_TIMEOUT_MS,
  lock_timeout: LOCK_TIMEOUT_MS,
  idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
};
/** Sent in the message that begins a transaction behind a pooler, so it costs no round trip. */
const LIMITS = Object.entries({ ...TIMEOUTS, ...PLANNER_SETTINGS })
  .map(([name, value]) => `SET LOCAL ${name} = ${value}`)
  .join('; ');
const PLANNER_OPTIONS = Object.entries(PLANNER_SETTINGS)
  .map(([name, value]) => `-c ${name}=${value}`)
  .join(' ');

/** A connection inside a transaction. */
export type Transaction = PoolClient;

/**
 * Creates a pool. It connects lazily: with an unreachable server, the first query fails.
 *
 * @param url a `postgres://` address
 */
export function openPool(url: string, options: PoolOptions): Database {
  const { sessionUrl, queryTimeoutMs = QUERY_TIMEOUT_MS } = options;
  const common = {
    ...KEEPALIVE,
    application_name: options.name,
    types: { getTypeParser },
    query_timeout: queryTimeoutMs,
    connectionTimeoutMillis: WAIT_TIMEOUT_MS,
  };
  const session = {
    ...common,
    ...TIMEOUTS,
    connectionString: sessionUrl ?? url,
    options: `${PLANNER_OPTIONS} ${KEEPALIVE_OPTIONS}`,
  };
  const max = options.connections ?? DEFAULT_CONNECTIONS;
  const min = Math.min(KEPT_CONNECTIONS, max);
  const pool =
    sessionUrl === undefined
      ? new SharedPool({ ...session, min, max, plansMaxAgeMs: options.plansMaxAgeMs, Client: PlanningClient })
      : new PoolBehindPooler({ ...common, connectionString: url, min, max, Client: UnnamingClient });
  // The pool also passes the connection.
  pool.on('error', (error) => options.onError(error));
  // The pool listens to idle connections only. Without this listener, a checked-out connection that is lost between two
  // queries would end the process; with it, the next query rejects.
  pool.on('connect', (client) => client.on('error', () => undefined));
  let closing: Promise<void> | undefined;
  return {
    pool,
    // A pool's timeout also covers the wait for a free connection.
    session: { options: { ...session, connectionTimeoutMillis: CONNECT_TIMEOUT_MS } },
    async openKept() {
      const opened = await Promise.allSettled(Array.from({ length: min }, () => pool.connect()));
      for (const one of opened) if (one.status === 'fulfilled') one.value.release();
    },
    close() {
      closing ??= pool.end();
      return closing;
    },
  };
}

/** Reads times as ISO 8601 texts, as every interface shows them. Other types are read by the driver's defaults. */
const getTypeParser: typeof types.getTypeParser = (oid: number, format?: 'text' | 'binary') =>
  oid === types.builtins.TIMESTAMPTZ && format !== 'binary' ? readTime : types.getTypeParser(oid, format);

/** How PostgreSQL prints a time while the zone of the connection is UTC, as it is by default in most places. */
const UTC_TIME = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00$/;

/** `infinity` is no time, so it stays as it is. */
function readTime(text: string): string {
  // A list has a time in each row: this takes a fifth of the time that a Date takes.
  const [, day, clock, fraction = ''] = UTC_TIME.exec(text) ?? [];
  if (day !== undefined) return `${day}T${clock}.${fraction.padEnd(3, '0').slice(0, 3)}Z`;
  const time: unknown = types.getTypeParser(types.builtins.TIMESTAMPTZ, 'text')(text);
  return time instanceof Date ? time.toISOString() : text;
}

/** An ownership of a shard of accounts: see `db/cluster/shards.ts`. */
export interface Fence {
  readonly shard: number;
  readonly epoch: number;
}
/** A pool whose transactions fail unless the ownership is current, and hold it until they end. */
export interface FencedPool {
  readonly pool: Pool;
  readonly fence: Fence;
}
/** Writes for a plugin are fenced. Without a fence: for tools and tests, beside which no supervisor runs. */
export type WritingPool = Pool | FencedPool;

/** The pool for reads, which need no fence. */
export const readingPool = (pool: WritingPool): Pool => ('fence' in pool ? pool.pool : pool);

/** Fails the statement unless the ownership is current, and holds it until the end of the transaction. */
export const holdShardSql = ({ shard, epoch }: Fence): string =>
  `hold_shard(${Math.trunc(shard)}, ${Math.trunc(epoch)})`;

/**
 * Runs `work` in one transaction: commits when it resolves, rolls back when it rejects.
 *
 * @param signal rolls back if it is aborted before the commit
 * @returns the result of `work`, after the commit
 */
export async function inTransaction<T>(
  pool: WritingPool,
  work: (tx: Transaction) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const isFenced = 'fence' in pool;
  const source = readingPool(pool);
  const begin = source instanceof PoolBehindPooler ? `BEGIN; ${LIMITS}` : 'BEGIN';
  const client = await source.connect();
  let broken: Error | undefined;
  try {
    // Two statements in one message: the fence costs no round trip.
    await client.query(isFenced ? `${begin}; SELECT ${holdShardSql(pool.fence)}` : begin);
    const result = await asTransaction(() => work(client));
    signal?.throwIfAborted();
    const { command } = await client.query('COMMIT');
    // PostgreSQL commits nothing after a statement failed, also where `work` ignored the error.
    if (command === 'ROLLBACK') throw new Error('The transaction was rolled back, because a statement of it failed.');
    return result;
  } catch (error) {
    // Closing the connection rolls back: a server that vanished would not answer, and after a failover this connection may lead
    // to one that accepts no writes. A named statement whose columns have another type since an upgrade fails until the connection ends.
    if (isDatabaseUnavailable(error) || isStatementOutdated(error)) broken = error as Error;
    // A connection that cannot roll back is in an unknown state: the pool discards it.
    else
      await client.query('ROLLBACK').catch((failure: Error) => {
        broken = failure;
      });
    throw error;
  } finally {
    client.release(broken);
  }
}

/**
 * Waits for the advisory lock of that name and holds it until the transaction ends.
 *
 * @param name any text; callers with the same name exclude each other across all processes of this database
 */
export async function takeNamedLock(tx: Transaction, name: string): Promise<void> {
  await tx.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [name]);
}

/** As `takeNamedLock`, without waiting. @returns false: another transaction holds the lock */
export async function tryNamedLock(tx: Transaction, name: string): Promise<boolean> {
  const found = await tx.query<{ isHeld: boolean }>(
    'SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS "isHeld"',
    [name],
  );
  return found.rows[0]?.isHeld === true;
}

const lockWaiters = new KeyedLocks();

/**
 * Runs `work` in a transaction that holds the advisory lock of that name. Callers of this process wait for each other in memory:
 * in the database, each would hold a connection meanwhile. Do not call it inside a transaction.
 */
export const inLockedTransaction = <T>(
  pool: WritingPool,
  name: string,
  work: (tx: Transaction) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> =>
  lockWaiters.run(
    name,
    () => {
      const workLocked = async (tx: Transaction): Promise<T> => {
        await takeNamedLock(tx, name);
        return work(tx);
      };
      return inTransaction(pool, workLocked, signal);
    },
    signal,
  );
