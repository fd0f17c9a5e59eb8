/** The MCP connections of this process, each with its own server and stream. Unused ones are closed. */
import { randomUUID } from 'node:crypto';
import { LATEST_PROTOCOL_VERSION } from '@modelcontextprotocol/sdk/types.js';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { buildServer } from './server.ts';
import type { McpDeps } from './server-parts.ts';
import { McpTransport } from './transport.ts';

/** The part of a connection's id that says which questions its client can ask. */
const describeElicitation = ({ elicitation }: McpTransport): string =>
  `${elicitation?.form === undefined ? '' : 'f'}${elicitation?.url === undefined ? '' : 'u'}`;

const OF_ACCOUNT_MAX = 50;
const TOTAL_MAX = 2_000;
/** Connections that their clients have ended, and whose ids this process keeps. */
const ENDED_MAX = 2_000;
/** The id of a connection says which questions its client can ask its user: `f` by form, `u` by address. */
const CONNECTION_ID = /^[0-9a-f-]{36}\.(f?)(u?)$/;
/** A connection without requests and open stream is closed after this time. Milliseconds. */
const IDLE_MS = 30 * 60_000;
const SWEEP_EVERY_MS = 60_000;
const FULL_RETRY_AFTER_S = 10;

export interface Connection {
  readonly session: Session;
  readonly transport: McpTransport;
  lastUsedAt: number;
  /** Number of requests without a complete answer, including that of the open stream. */
  running: number;
  /** Whether changes of the lists may have reached no stream: before the first one, after one has ended, or in another process before. */
  mayMissChanges: boolean;
  /** Notifies the client that each list may have changed. */
  announceLists(): void;
  close(): Promise<void>;
}

export class McpConnections {
  readonly #deps: McpDeps;
  readonly #open = new Map<string, Connection>();
  /** Ids of connections that their clients have ended, the oldest first. */
  readonly #ended = new Set<string>();
  readonly #restoring = new Map<string, Promise<Connection>>();
  readonly #sweeper: NodeJS.Timeout;
  #isDraining = false;
  #isSweeping = false;

  constructor(deps: McpDeps) {
    this.#deps = deps;
    this.#sweeper = setInterval(() => void this.sweep(), SWEEP_EVERY_MS).unref();
  }

  /**
   * Opens the connection that a client names, for this account and session. Undefined: its client has ended it, or the id is not that of a
   * connection of the session.
   *
   * @param mayBegin whether the client may begin connections: another one could take all places of the account with invented ids
   * @throws Problem `rate_limited`
   */
  async open(session: Session, id: string, mayBegin: boolean): Promise<Connection | undefined> {
    return this.#find(id, session) ?? (mayBegin ? this.#restore(session, id) : undefined);
  }

  #find(id: string, { id: sessionId, accountId }: Session): Connection | undefined {
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
   * @param id of a connection that is built again
   * @throws Problem `rate_limited`
   */
  async begin(session: Session, id?: string): Promise<Connection> {
    this.#requireRoom(session.accountId);
    const { server, announceLists, unwatch } = buildServer(this.#deps, session, () => {
      connection.mayMissChanges = true;
    });
    const transport = new McpTransport({
      sessionIdGenerator: () => id ?? `${randomUUID()}.${describeElicitation(transport)}`,
      onsessioninitialized: (given) => {
        if (this.#isFull(session.accountId)) void this.#findUnused(session.accountId)?.close();
        this.#open.set(given, connection);
      },
      onsessionclosed: (given) => {
        this.#ended.add(given);
        const [oldest = ''] = this.#ended;
        if (this.#ended.size > ENDED_MAX) this.#ended.delete(oldest);
      },
    });
    const connection: Connection = {
      session,
      transport,
      lastUsedAt: Date.now(),
      running: 0,
      mayMissChanges: id !== undefined,
      announceLists,
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

  /**
   * Builds a connection again from its id, after a restart or a long pause: clients of the official SDKs do not initialize again. The id
   * needs no signature, because the token decides which account and session it is for.
   */
  async #restore(session: Session, id: string): Promise<Connection | undefined> {
    const [isConnection, form, url] = CONNECTION_ID.exec(id) ?? [];
    if (!isConnection || this.#ended.has(id)) return undefined;
    // A client may send several requests at once.
    if (!this.#restoring.has(id)) {
      if (this.#open.has(id)) return undefined;
      const capabilities = { elicitation: { ...(form ? { form: {} } : {}), ...(url ? { url: {} } : {}) } };
      const restored = this.#initialize(session, id, form || url ? capabilities : {});
      this.#restoring.set(
        id,
        restored.finally(() => this.#restoring.delete(id)),
      );
    }
    await this.#restoring.get(id);
    return this.#find(id, session);
  }

  async #initialize(session: Session, id: string, capabilities: object): Promise<Connection> {
    const connection = await this.begin(session, id);
    const clientInfo = { name: 'unknown', version: '0' };
    const params = { protocolVersion: LATEST_PROTOCOL_VERSION, capabilities, clientInfo };
    const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
    const request = new Request('http://localhost/mcp', { method: 'POST', headers });
    const parsedBody = { jsonrpc: '2.0', id: 0, method: 'initialize', params };
    await (await connection.transport.handleRequest(request, { parsedBody })).text();
    return connection;
  }

  /** Counts a request of the connection. @returns a function to call when its answer is complete or its client has left */
  beginRequest(connection: Connection): () => void {
    connection.running += 1;
    return () => {
      connection.running -= 1;
      connection.lastUsedAt = Date.now();
      if (this.#isDraining && connection.running === 0) void connection.close();
    };
  }

  /** Call it when the client of a connection has opened its stream. */
  beginStream(connection: Connection): void {
    // The client opens it again, in another process. Clients give up after few errors, but not after streams that end.
    if (this.#isDraining) connection.transport.closeStandaloneSSEStream();
    else if (connection.mayMissChanges) connection.announceLists();
    connection.mayMissChanges = true;
  }

  /**
   * Ends the streams, and closes each connection as soon as its requests are answered. Its next request builds it again: in another process,
   * or here if it still arrives here.
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
    const unused = this.#listOf(accountId).filter(({ running }) => running === 0);
    return unused.toSorted((one, other) => one.lastUsedAt - other.lastUsedAt)[0];
  }

  /** Closes the connections that were unused for long, and those of deleted sessions. */
  async sweep(): Promise<void> {
    // While the database is away, its queries take longer than the time between two sweeps.
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    const idleSince = Date.now() - IDLE_MS;
    try {
      for (const connection of [...this.#open.values()]) {
        const isIdle = connection.running === 0 && connection.lastUsedAt < idleSince;
        if (isIdle || (await this.#isSessionDeleted(connection.session))) void connection.close();
      }
    } finally {
      this.#isSweeping = false;
    }
  }

  async #isSessionDeleted({ accountId, id }: Session): Promise<boolean> {
    try {
      await this.#deps.services.sessions.get(accountId, id);
      return false;
    } catch (error) {
      // Any other error is one of the database.
      return error instanceof Problem && error.code === 'not_found';
    }
  }
}
