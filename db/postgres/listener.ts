/** One dedicated LISTEN connection per process, with automatic reconnects. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type Notification, type Pool } from 'pg';
import { Waker } from '../timing/waker.ts';
import type { SessionSource } from './pool.ts';
import { findValue } from './rows.ts';

/** Exponential backoff of reconnects. Milliseconds. */
const RECONNECT_FIRST_MS = 100;
const RECONNECT_MAX_MS = 5_000;
/** Detects a connection that died without a FIN. Milliseconds. */
const HEARTBEAT_MS = 10_000;
/** The statements of the connection take a millisecond: one that is not answered in this time never will be. Milliseconds. */
const RESPONSE_MS = 5_000;
/** A notification to the process itself takes a millisecond. Milliseconds. */
const ROUND_TRIP_MS = 5_000;
/** Delay before a lock that a running transaction holds is tried again. Milliseconds. */
const LOCK_RETRY_MS = 10;

const LOCK_KEY = 'hashtextextended($1, 0)';

export interface Subscription {
  close(): Promise<void>;
}
interface Subscriber {
  onNotification(payload: string): void;
  /** Notifications may have been missed: treat everything as changed. */
  onReconnect(): void;
}
interface Channel {
  readonly subscribers: Set<Subscriber>;
  /** Resolves when the server listens, or when the connection is lost: the next one listens as well. */
  readonly listening: Promise<void>;
}

/** A lock that is held once for each of these. */
interface Lock {
  readonly name: string;
}

/**
 * Opens the process's LISTEN connection, outside the pool because LISTEN belongs to a session.
 *
 * @param pool sends a notification, to check that it arrives
 * @param onError called on each loss of the connection; the listener reconnects automatically
 * @param session supplies server and role; default: the pool
 * @param responseMs time after which a connection that does not respond is lost
 * @throws Error when notifications do not arrive, as behind a pooler, or from another database than that of the session
 */
export async function openListener(
  pool: Pool,
  onError: (error: Error) => void,
  session: SessionSource = pool,
  responseMs: number = RESPONSE_MS,
): Promise<Listener> {
  const listener = new Listener(session, onError, responseMs);
  await listener.connect();
  try {
    await requireNotifications(pool, listener, session);
  } catch (error) {
    await listener.close();
    throw error;
  }
  return listener;
}

async function requireNotifications(pool: Pool, listener: Listener, session: SessionSource): Promise<void> {
  const channel = `bulkhead_check_${randomUUID()}`;
  const waker = new Waker();
  const subscriber = { onNotification: () => waker.wake(), onReconnect: () => undefined };
  const subscription = await listener.listen(channel, subscriber);
  try {
    await pool.query('SELECT pg_notify($1, $2)', [channel, '']);
    if (await waker.wait(ROUND_TRIP_MS)) return;
  } finally {
    await subscription.close();
  }
  const hasOwnAddress = session.options.connectionString !== pool.options.connectionString;
  const reason = hasOwnAddress
    ? 'DATABASE_URL and DATABASE_SESSION_URL lead to different databases, or DATABASE_SESSION_URL to a pooler. Set DATABASE_SESSION_URL to the address of PostgreSQL itself, with the database of DATABASE_URL.'
    : 'DATABASE_URL leads to a pooler in transaction mode. Set DATABASE_SESSION_URL to the address of PostgreSQL itself.';
  throw new Error(`Notifications of PostgreSQL do not arrive: ${reason}`);
}

export class Listener {
  readonly #session: SessionSource;
  readonly #onError: (error: Error) => void;
  readonly #responseMs: number;
  readonly #channels = new Map<string, Channel>();
  /** Names of the locks that this session holds. */
  readonly #held = new Set<Lock>();
  #client: Client | null = null;
  /** The statement that runs, and those that wait for it: `pg` takes one at a time. */
  #statements: Promise<unknown> = Promise.resolve();
  /** A check that waits for its turn: those who ask meanwhile share it. */
  #nextCheck: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;
  #heartbeat: NodeJS.Timeout | null = null;
  #failures = 0;
  #closed = false;

  constructor(session: SessionSource, onError: (error: Error) => void, responseMs: number) {
    this.#session = session;
    this.#onError = onError;
    this.#responseMs = responseMs;
  }

  isConnected(): boolean {
    return this.#client !== null;
  }

  /** Called once: the listener reconnects by itself. */
  async connect(): Promise<void> {
    const client = new Client(this.#session.options);
    client.on('notification', (notification) => this.#deliver(notification));
    client.on('error', (error) => this.#handleLoss(client, error));
    client.on('end', () => this.#handleLoss(client, new Error('The LISTEN connection ended')));
    const channels = new Set<string>();
    /** Those that were tried, and whether they were taken. */
    const locks = new Map<Lock, boolean>();
    try {
      await client.connect();
      // Until nothing is left that was added meanwhile.
      for (let before = -1; before < channels.size + locks.size; ) {
        before = channels.size + locks.size;
        for (const channel of this.#channels.keys()) {
          if (!channels.has(channel)) await this.#run(client, () => listenTo(client, channel));
          channels.add(channel);
        }
        for (const lock of this.#held) if (!locks.has(lock)) locks.set(lock, await this.#takeLock(client, lock));
      }
    } catch (error) {
      discardClient(client);
      throw error;
    }
    if (this.#closed) return client.end();
    this.#client = client;
    this.#failures = 0;
    // Given up meanwhile. Not those that were given up before they were taken: that would release another one of their name.
    for (const [lock, isTaken] of locks) if (isTaken && !this.#held.has(lock)) void this.#unlock(client, lock);
    this.#heartbeat = setInterval(() => void this.#checkConnection(client), HEARTBEAT_MS).unref();
  }

  /** Subscribes to a channel. Resolves when the server listens. */
  async listen(name: string, subscriber: Subscriber): Promise<Subscription> {
    let channel = this.#channels.get(name);
    if (!channel) {
      channel = { subscribers: new Set(), listening: this.#beginListening(name) };
      this.#channels.set(name, channel);
    }
    channel.subscribers.add(subscriber);
    await channel.listening;
    return { close: () => this.#unsubscribe(name, subscriber) };
  }

  async #beginListening(name: string): Promise<void> {
    const client = this.#client;
    if (!client) return;
    try {
      await this.#run(client, () => listenTo(client, name));
    } catch (error) {
      // A connection that is lost meanwhile listens when it is back.
      if (this.#client !== client) return;
      this.#channels.delete(name);
      throw error;
    }
  }

  async #unsubscribe(name: string, subscriber: Subscriber): Promise<void> {
    const channel = this.#channels.get(name);
    if (channel?.subscribers.delete(subscriber) !== true || channel.subscribers.size > 0) return;
    this.#channels.delete(name);
    const client = this.#client;
    // A lost connection listens no more.
    if (client)
      await this.#run(client, () => client.query(`UNLISTEN ${client.escapeIdentifier(name)}`)).catch(() => undefined);
  }

  /**
   * Holds the advisory lock of that name, shared with others, until the subscription is closed: also after a reconnect.
   * Resolves when transactions that found the lock free have ended.
   */
  async holdShared(name: string): Promise<Subscription> {
    const lock = { name };
    this.#held.add(lock);
    const client = this.#client;
    try {
      if (client) await this.#takeLock(client, lock);
    } catch (error) {
      // A connection that is lost meanwhile takes its locks when it is back.
      if (this.#client === client) {
        this.#held.delete(lock);
        throw error;
      }
    }
    return { close: () => this.#releaseShared(lock) };
  }

  async #releaseShared(lock: Lock): Promise<void> {
    if (this.#held.delete(lock) && this.#client) await this.#unlock(this.#client, lock);
  }

  /**
   * Tries until it succeeds or is not wanted any more: a statement that waits would hold up the notifications of its connection.
   *
   * @returns whether it was taken
   */
  async #takeLock(client: Client, lock: Lock): Promise<boolean> {
    const sql = `SELECT pg_try_advisory_lock_shared(${LOCK_KEY})`;
    const tryLock = () => findValue<boolean>(client, sql, [lock.name]);
    while (this.#held.has(lock) && !this.#closed) {
      if (await this.#run(client, tryLock)) return true;
      await sleep(LOCK_RETRY_MS);
    }
    return false;
  }

  async #unlock(client: Client, { name }: Lock): Promise<void> {
    const sql = `SELECT pg_advisory_unlock_shared(${LOCK_KEY})`;
    await this.#run(client, () => client.query(sql, [name])).catch(() => undefined);
  }

  /**
   * Resolves when this process was notified of all transactions that have ended, so that its caches know what it has changed.
   * Without a connection, at once: the next one treats everything as changed. A connection that does not respond is given up.
   */
  async catchUp(): Promise<void> {
    // The server sends notifications before it answers the next statement. A connection that is lost has nothing to catch up.
    if (this.#client) await this.#checkConnection(this.#client);
  }

  /** Runs a statement of the connection when those before it have ended. A connection that does not answer one is lost. */
  #run<T>(client: Client, statement: () => Promise<T>): Promise<T> {
    const run = async (): Promise<T> => {
      const timer = setTimeout(() => {
        if (this.#client === client) this.#handleLoss(client, new Error('The LISTEN connection does not respond'));
        // One that is being opened: its statement fails.
        else void discardClient(client);
      }, this.#responseMs);
      return await statement().finally(() => clearTimeout(timer));
    };
    const result = this.#statements.then(run);
    this.#statements = result.catch(() => undefined);
    return result;
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer) clearTimeout(this.#timer);
    if (this.#heartbeat) clearInterval(this.#heartbeat);
    const client = this.#client;
    this.#client = null;
    if (client) await discardClient(client);
  }

  #deliver({ channel, payload = '' }: Notification): void {
    for (const subscriber of this.#channels.get(channel)?.subscribers ?? []) subscriber.onNotification(payload);
  }

  /** Resolves when the server has answered, or the connection is lost. */
  #checkConnection(client: Client): Promise<void> {
    this.#nextCheck ??= this.#run(client, async () => {
      this.#nextCheck = null;
      const isStandby = await findValue<boolean>(client, 'SELECT pg_is_in_recovery()');
      // A standby delivers no notifications, and its connections survive a failover.
      if (isStandby) this.#handleLoss(client, new Error('The LISTEN connection leads to a standby'));
    }).catch((error: unknown) => this.#handleLoss(client, error as Error));
    return this.#nextCheck;
  }

  #handleLoss(client: Client, error: Error): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = null;
    this.#nextCheck = null;
    if (this.#heartbeat) clearInterval(this.#heartbeat);
    discardClient(client);
    this.#onError(error);
    this.#reconnect();
  }

  #reconnect(): void {
    const delayMs = Math.min(RECONNECT_MAX_MS, RECONNECT_FIRST_MS * 2 ** Math.min(this.#failures++, 10));
    this.#timer = setTimeout(() => {
      this.connect().then(
        () => !this.#closed && this.#notifyReconnected(),
        () => !this.#closed && this.#reconnect(),
      );
    }, delayMs);
  }

  #notifyReconnected(): void {
    for (const { subscribers } of this.#channels.values())
      for (const subscriber of subscribers) subscriber.onReconnect();
  }
}

const listenTo = (client: Client, channel: string): Promise<unknown> =>
  client.query(`LISTEN ${client.escapeIdentifier(channel)}`);

/** Closes a connection that may be lost already, so errors no longer matter. */
async function discardClient(client: Client): Promise<void> {
  client.removeAllListeners();
  client.on('error', () => undefined);
  await client.end().catch(() => undefined);
}
