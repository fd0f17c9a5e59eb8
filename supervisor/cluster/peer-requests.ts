/** Asks the supervisor that owns an account: forwards requests of its callers, and hands jobs over. */
import { addAbortListener } from 'node:events';
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Peer } from '../../db/cluster/supervisors.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { openPeerRequest, type PeerRequest } from '../../service/cluster/peer-signature.ts';
import { discardBody } from '../../service/http/body-reader.ts';
import { Agent } from '../../service/http/node-http.ts';
import { createLossProblem } from './lost-calls.ts';
import { RETRY_AFTER_S } from './ownership-policy.ts';
import { LINK_TIMES, type LinkTimes, PeerGoneError, PeerLinks } from './peer-links.ts';

/** A machine that accepts no connection within this time is gone. Milliseconds. */
const CONNECT_MS = 2_000;
/** Connections are kept this long, less than the server keeps them. Milliseconds. */
const IDLE_MS = 30_000;
/** Limit of WebSockets that are forwarded at once. */
const SOCKETS_MAX = 64;
export const JOB_PATH = '/peer/jobs/';
/** Answers a job of an account that moves, which is an expected event and no error. */
export const NOT_OWNED = 409;
/** The path that answers while a supervisor is alive. */
export const ALIVE_PATH = '/peer/alive';
/** Some proxies send the whole address in the request line. */
const ORIGIN = /^https?:\/\/[^/?]*/i;
/** Hop-by-hop headers, which are not forwarded. */
const HOP_BY_HOP = new Set([
  'connection',
  'expect',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

interface PeerRequestsOptions {
  onError(error: Error): void;
  /** Default: `LINK_TIMES`. */
  readonly linkTimes?: LinkTimes;
}

export class PeerRequests {
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MS });
  readonly #links: PeerLinks;
  /** Connections of callers that are forwarded as they are. */
  readonly #sockets = new Set<Duplex>();

  constructor({ onError, linkTimes: times = LINK_TIMES }: PeerRequestsOptions) {
    const onCutOff = ({ address }: Peer): void =>
      onError(
        new Error(
          `the supervisor at ${address} has not answered for ${times.cutOffMs / 1_000} s: until it does, calls for its accounts are refused here. Check the network between the two`,
        ),
      );
    this.#links = new PeerLinks({
      times,
      // Any status counts: an older release answers 404.
      ask: (peer, signal) => this.#send(peer, { method: 'GET', path: ALIVE_PATH, hops: 1 }, signal),
      onCutOff,
    });
  }

  close(): void {
    this.closeSockets();
    this.#links.close();
    this.#agent.destroy();
  }

  /** Ends forwarded WebSockets: the callers connect to another supervisor. */
  closeSockets(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /**
   * Forwards a request whose body was not read, and its answer as it comes.
   *
   * @param hops how often it was forwarded, with this time
   * @param signal aborts when the peer no longer owns the account
   * @throws PeerGoneError, or a Problem: `unavailable` when the peer is cut off; when the connection breaks before the answer,
   *   `outcome_unknown`, or `unavailable` if the request only reads; `bad_request` when the client has left
   */
  async forward(
    peer: Peer,
    request: FastifyRequest,
    reply: FastifyReply,
    hops: number,
    signal: AbortSignal,
  ): Promise<void> {
    if (reply.raw.closed) throw clientLeft();
    const { raw } = request;
    const path = (raw.url ?? '/').replace(ORIGIN, '');
    const link = this.#links.wait(peer);
    const hasLength = raw.headers['content-length'] !== undefined;
    const isChunked = !hasLength && raw.headers['transfer-encoding'] !== undefined;
    // Node frames no body of GET, HEAD and DELETE by itself: the peer would read the body as the next request.
    const framing = isChunked ? { 'transfer-encoding': 'chunked' } : {};
    const headers = { ...copyHeaders(raw), ...framing };
    const sent = openPeerRequest(this.#agent, peer, { method: raw.method ?? 'GET', path, hops, headers });
    const ended = AbortSignal.any([signal, link.signal]);
    const abort = (): void => void sent.destroy(new Error('given up'));
    using _listening = addAbortListener(ended, abort);
    reply.raw.once('close', abort);
    try {
      const answer = await readAnswer(sent, () => (hasLength || isChunked ? raw.pipe(sent) : sent.end()));
      link.noteAnswer();
      reply.hijack();
      reply.raw.statusCode = answer.statusCode ?? 502;
      for (const [name, values] of Object.entries(answer.headersDistinct))
        if (values && !HOP_BY_HOP.has(name))
          reply.raw.setHeader(name, values.length === 1 ? (values[0] ?? '') : values);
      reply.raw.flushHeaders();
      // A connection that breaks now cuts the answer off, as it does without a peer between.
      await pipeline(answer, reply.raw).catch(() => reply.raw.destroy());
      if (!sent.writableFinished) {
        // Answered before the end of the body, which may never come. The rest is discarded here.
        sent.destroy();
        discardBody(raw, reply.raw);
      }
    } catch (error) {
      throw reply.raw.closed ? clientLeft() : error;
    } finally {
      link.end();
      reply.raw.off('close', abort);
    }
  }

  /**
   * Forwards a request that becomes a WebSocket, and then what either side sends.
   *
   * @throws PeerGoneError, or Problem
   */
  async forwardSocket(peer: Peer, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    if (this.#sockets.size >= SOCKETS_MAX)
      throw new Problem('unavailable', `All ${SOCKETS_MAX} forwarded connections are in use.`, {
        retryAfter: RETRY_AFTER_S,
      });
    const link = this.#links.wait(peer);
    link.signal.addEventListener('abort', () => socket.destroy(), { once: true });
    this.#sockets.add(socket);
    const release = (): void => {
      this.#sockets.delete(socket);
      link.end();
    };
    socket.once('close', release);
    const { method = 'GET', url: path = '/' } = request;
    const sent = openPeerRequest(this.#agent, peer, { method, path, hops: 1, headers: copyUpgradeHeaders(request) });
    socket.once('close', () => sent.destroy());
    let isOpen = false;
    const { promise: opened, resolve } = Promise.withResolvers<null>();
    sent.once('upgrade', (answer, there, early) => {
      isOpen = true;
      socket.write(formatHead(answer));
      socket.write(early);
      there.write(head);
      void pipeline(there, socket, there).catch(() => undefined);
      resolve(null);
    });
    // The socket of a caller that is refused may stay open for a while.
    const refusal = await Promise.race([opened, readAnswer(sent, () => sent.end())]).finally(() => isOpen || release());
    if (isOpen) return;
    refusal?.resume();
    throw new Problem('not_found', 'This WebSocket address is not open on its supervisor. Request a new address.');
  }

  /**
   * Resolves when the owner has done the work.
   *
   * @returns false: it does not own the account any more, or is giving it up @throws Error when it failed: the queue retries the job
   */
  async sendJob(peer: Peer, name: string, accountId: string, payload: object): Promise<boolean> {
    const path = `${JOB_PATH}${name}?${new URLSearchParams({ accountId, payload: JSON.stringify(payload) })}`;
    const link = this.#links.wait(peer);
    try {
      const status = await this.#send(peer, { method: 'POST', path, hops: 1 }, link.signal);
      link.noteAnswer();
      if (status !== 204 && status !== NOT_OWNED)
        throw new Error(`the owner of the account answered a job with ${status}`);
      return status === 204;
    } finally {
      link.end();
    }
  }

  /** @returns the status */
  async #send(peer: Peer, request: PeerRequest, signal: AbortSignal): Promise<number | undefined> {
    const sent = openPeerRequest(this.#agent, peer, request);
    using _listening = addAbortListener(signal, () => sent.destroy(new Error('given up')));
    const answer = await readAnswer(sent, () => sent.end());
    answer.resume();
    return answer.statusCode;
  }
}

/** @param send called once there is a connection */
function readAnswer(sent: ClientRequest, send: () => void): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  let isConnected = false;
  const timer = setTimeout(() => sent.destroy(new Error('no connection')), CONNECT_MS);
  const start = (): void => {
    isConnected = true;
    clearTimeout(timer);
    send();
  };
  sent.once('socket', (socket) => (socket.connecting ? socket.once('connect', start) : start()));
  sent.once('response', resolve);
  sent.on('error', (error) => {
    clearTimeout(timer);
    reject(isConnected ? createLossProblem(sent.method, BROKEN_OFF) : new PeerGoneError(error.message));
  });
  return promise;
}

/** The answer that opens a WebSocket, as it was received. */
function formatHead({ statusCode, statusMessage, rawHeaders }: IncomingMessage): string {
  const lines = Array.from(
    { length: rawHeaders.length / 2 },
    (_, index) => `${rawHeaders[2 * index]}: ${rawHeaders[2 * index + 1]}`,
  );
  return `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${lines.join('\r\n')}\r\n\r\n`;
}

/** No client reads it. Another error would be logged as a fault of the peer. */
const clientLeft = (): Problem => new Problem('bad_request', 'The client closed the request.');

const BROKEN_OFF = 'The supervisor that ran this call ended or is out of reach.';

function copyHeaders({ headers }: IncomingMessage): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, value ?? '']));
}

/** Without the length of a body, which is not forwarded: the peer would read the next request as the body. */
function copyUpgradeHeaders(request: IncomingMessage): Record<string, string | string[]> {
  const { 'content-length': _, ...kept } = copyHeaders(request);
  return { ...kept, connection: 'upgrade', upgrade: request.headers.upgrade ?? '' };
}
