/** The MCP connections of this process, each with its own server and stream. Unused ones are closed. */
import { randomUUID } from 'node:crypto';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { buildServer } from './server.ts';
import type { McpDeps } from './server-parts.ts';
import { McpTransport } from './transport.ts';

const OF_ACCOUNT_MAX = 50;
const TOTAL_MAX = 2_000;
/** A connection without requests and open stream is closed after this time. Milliseconds. */
const IDLE_MS = 30 * 60_000;
const SWEEP_EVERY_MS = 60_000;
const FULL_RETRY_AFTER_S = 10;
const STOPPING_RETRY_AFTER_S = 1;

export interface Connection {
  readonly session: Session;
  readonly transport: McpTransport;
  lastUsedAt: number;
  /** Number of unfinished responses, including the open stream. */
  streams: number;
  /** Number of POST requests without a complete answer. */
  running: number;
  close(): Promise<void>;
}

export class McpConnections {
  readonly #deps: McpDeps;
  readonly #open = new Map<string, Connection>();
  readonly #sweeper: NodeJS.Timeout;
  #isDraining = false;

  constructor(deps: McpDeps) {
    this.#deps = deps;
    this.#sweeper = setInterval(() => this.#sweep(), SWEEP_EVERY_MS).unref();
  }

  /**
   * Finds the connection that a client names, for this account and session. Undefined: it does not exist, was closed, or takes no new
   * work because the process stops.
   *
   * @param isNewWork false for what belongs to a running call: an answer to its question, or its cancellation
   */
  find(id: string, { id: sessionId, accountId }: Session, isNewWork: boolean): Connection | undefined {
    if (this.#isDraining && isNewWork) return undefined;
    const found = this.#open.get(id);
    return found?.session.id === sessionId && found.session.accountId === accountId ? found : undefined;
  }

  /** Id of the session with this key that an open connection of the account serves. */
  findSessionId(id: string | undefined, accountId: string, key: string): string | undefined {
    const session = this.#open.get(id ?? '')?.session;
    return session?.accountId === accountId && session.key === key ? session.id : undefined;
  }

  /**
   * Creates a connection, which is stored when the client has initialized it.
   *
   * @throws Problem `rate_limited`, or `unavailable` while the process stops
   */
  async begin(session: Session): Promise<Connection> {
    if (this.#isDraining)
      throw new Problem('unavailable', 'This supervisor is stopping and opens no MCP connections. Connect again.', {
        retryAfter: STOPPING_RETRY_AFTER_S,
      });
    this.#requireRoom(session.accountId);
    const { server, unwatch } = buildServer(this.#deps, session);
    const transport = new McpTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => {
        if (this.#isFull(session.accountId)) void this.#findUnused(session.accountId)?.close();
        this.#open.set(id, connection);
      },
    });
    const connection: Connection = {
      session,
      transport,
      lastUsedAt: Date.now(),
      streams: 0,
      running: 0,
      close: () => server.close(),
    };
    server.onclose = () => {
      unwatch();
      if (transport.sessionId !== undefined) this.#open.delete(transport.sessionId);
    };
    await server.connect(transport);
    transport.checkRequests();
    return connection;
  }

  /** Counts a POST request of the connection. @returns a function to call when its answer is complete or its client has left */
  beginRequest(connection: Connection): () => void {
    connection.running += 1;
    return () => {
      connection.running -= 1;
      if (this.#isDraining && connection.running === 0) void connection.close();
    };
  }

  /**
   * Takes no more work, and closes each connection as soon as its running requests are answered. Their clients initialize again, with
   * another process.
   */
  drain(): void {
    this.#isDraining = true;
    clearInterval(this.#sweeper);
    for (const connection of this.#open.values())
      if (connection.running === 0) void connection.close();
      else connection.transport.closeStandaloneSSEStream();
  }

  /**
   * A client that crashed leaves connections behind that nobody ends. So a new connection of a full account is allowed if it can replace
   * an unused one.
   */
  #requireRoom(accountId: string): void {
    if (!this.#isFull(accountId) || this.#findUnused(accountId)) return;
    throw new Problem(
      'rate_limited',
      `Too many MCP connections: the account has ${OF_ACCOUNT_MAX}, or this process ${TOTAL_MAX}, and each of the account’s has an open stream or a running request. End one with DELETE, or retry shortly.`,
      { retryAfter: FULL_RETRY_AFTER_S },
    );
  }

  #isFull = (accountId: string): boolean =>
    this.#open.size >= TOTAL_MAX || this.#listOf(accountId).length >= OF_ACCOUNT_MAX;

  #listOf = (accountId: string): Connection[] =>
    [...this.#open.values()].filter(({ session }) => session.accountId === accountId);

  /** The account's connection that was unused for longest. */
  #findUnused(accountId: string): Connection | undefined {
    const unused = this.#listOf(accountId).filter(({ streams, running }) => streams === 0 && running === 0);
    return unused.toSorted((one, other) => one.lastUsedAt - other.lastUsedAt)[0];
  }

  #sweep(): void {
    const idleSince = Date.now() - IDLE_MS;
    for (const connection of this.#open.values())
      if (connection.streams === 0 && connection.lastUsedAt < idleSince) void connection.close();
  }
}
