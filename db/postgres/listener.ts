/** One dedicated connection that LISTENs for the whole process and comes back by itself. */
import { Client, type Notification, type Pool } from 'pg';

/** First and longest wait before a lost listening connection is tried again, milliseconds. */
const RECONNECT_FIRST_MS = 100;
const RECONNECT_MAX_MS = 5_000;
/** A connection that died without a FIN is noticed within this time, milliseconds. */
const HEARTBEAT_MS = 10_000;

export interface Subscription {
  close(): Promise<void>;
}
export interface Subscriber {
  onNotice(payload: string): void;
  /** Notices may have been missed: everything is to be treated as changed. */
  onReconnect(): void;
}
export interface Listener {
  /** Subscribes to a channel. Resolves when the server listens. */
  listen(channel: string, subscriber: Subscriber): Promise<Subscription>;
  /** Whether the connection stands. */
  connected(): boolean;
  close(): Promise<void>;
}

/**
 * Opens the process's listening connection. It is no pool connection: LISTEN is bound to a session.
 *
 * @param pool where to: the same server and role as this pool
 * @param onError told about each loss of the connection; the listener goes on by itself
 * @param sessionSql run on every connection it makes: what must live as long as the process, such as a lease
 */
export async function openListener(
  pool: Pool,
  onError: (error: Error) => void,
  sessionSql: readonly string[] = [],
): Promise<Listener> {
  const connection = new ListeningConnection(pool, onError, sessionSql);
  await connection.open();
  return connection;
}

class ListeningConnection implements Listener {
  readonly #pool: Pool;
  readonly #onError: (error: Error) => void;
  readonly #sessionSql: readonly string[];
  readonly #subscribers = new Map<string, Set<Subscriber>>();
  #client: Client | null = null;
  #timer: NodeJS.Timeout | null = null;
  #heartbeat: NodeJS.Timeout | null = null;
  #failures = 0;
  #closed = false;

  constructor(pool: Pool, onError: (error: Error) => void, sessionSql: readonly string[]) {
    this.#pool = pool;
    this.#sessionSql = sessionSql;
    this.#onError = onError;
  }

  connected(): boolean {
    return this.#client !== null;
  }

  async open(): Promise<void> {
    const client = new Client(this.#pool.options);
    client.on('notification', (notice) => this.#deliver(notice));
    client.on('error', (error) => this.#lose(client, error));
    client.on('end', () => this.#lose(client, new Error('the listening connection ended')));
    try {
      await client.connect();
      for (const sql of this.#sessionSql) await client.query(sql);
      for (const channel of this.#subscribers.keys()) await client.query(`LISTEN ${client.escapeIdentifier(channel)}`);
    } catch (error) {
      client.removeAllListeners();
      client.on('error', () => undefined);
      client.end().catch(() => undefined);
      throw error;
    }
    if (this.#closed) return client.end();
    this.#client = client;
    this.#failures = 0;
    this.#heartbeat = setInterval(() => this.#beat(client), HEARTBEAT_MS).unref();
  }

  async listen(channel: string, subscriber: Subscriber): Promise<Subscription> {
    const known = this.#subscribers.get(channel);
    if (known) known.add(subscriber);
    else {
      this.#subscribers.set(channel, new Set([subscriber]));
      await this.#client?.query(`LISTEN ${this.#client.escapeIdentifier(channel)}`);
    }
    return { close: async () => void this.#subscribers.get(channel)?.delete(subscriber) };
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer) clearTimeout(this.#timer);
    if (this.#heartbeat) clearInterval(this.#heartbeat);
    const client = this.#client;
    this.#client = null;
    client?.removeAllListeners();
    client?.on('error', () => undefined);
    await client?.end().catch(() => undefined);
  }

  #deliver(notice: Notification): void {
    for (const subscriber of this.#subscribers.get(notice.channel) ?? []) subscriber.onNotice(notice.payload ?? '');
  }

  #beat(client: Client): void {
    const late = setTimeout(
      () => this.#lose(client, new Error('the listening connection is silent')),
      HEARTBEAT_MS / 2,
    );
    client.query('SELECT 1').then(
      () => clearTimeout(late),
      (error: Error) => {
        clearTimeout(late);
        this.#lose(client, error);
      },
    );
  }

  #lose(client: Client, error: Error): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = null;
    if (this.#heartbeat) clearInterval(this.#heartbeat);
    client.removeAllListeners();
    client.on('error', () => undefined);
    client.end().catch(() => undefined);
    this.#onError(error);
    this.#retry();
  }

  #retry(): void {
    const wait = Math.min(RECONNECT_MAX_MS, RECONNECT_FIRST_MS * 2 ** Math.min(this.#failures++, 10));
    this.#timer = setTimeout(() => {
      this.open().then(
        () => this.#announceReturn(),
        () => !this.#closed && this.#retry(),
      );
    }, wait);
  }

  #announceReturn(): void {
    for (const group of this.#subscribers.values()) for (const subscriber of group) subscriber.onReconnect();
  }
}
