/**
 * Serves the webhook address: `/webhook/plugin/{routingId}`, any method, for vendors. It comes before the REST
 * interface in the same server, because requests must not be parsed, decoded or dropped here. Answers 200 after the
 * commit, without waiting for a plugin.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { NewDelivery } from '../../db/channels/deliveries.ts';
import type { HandshakeReply } from '../../db/channels/handshakes.ts';
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';
import { orderedId } from '../../db/postgres/ordered-id.ts';
import { Problem, problems } from '../../sdk/contract/errors.ts';
import { HANDSHAKE_HEADERS } from '../../sdk/contract/payloads.ts';
import { PROBLEM_TYPE, problemBody } from '../../sdk/contract/problem-body.ts';
import { discardBody, mayBeCostly } from '../../service/http/body-reader.ts';
import { findHeadFault } from '../../service/http/client-errors.ts';
import { CLIENT_LEFT_STATUS, onceClosed, sentStatus } from '../../service/http/closed-responses.ts';
import type { PlaceLimiter } from '../../service/http/place-limiter.ts';
import { createRateLimitProblem } from '../../service/http/rate-limits.ts';
import type { RefusalPace } from '../../service/http/refusal-pace.ts';
import { currentTrace, traced } from '../../service/telemetry/tracing.ts';
import { waitToBegin } from '../../service/timing/loop-turns.ts';
import type { TokenBucket, TokenBuckets } from '../../service/timing/token-bucket.ts';
import type { Addresses } from './address-cache.ts';
import type { DeliveryQuota } from './delivery-quota.ts';
import { isHandshake } from './handshake-selection.ts';
import type { IncomingBodies } from './incoming-bodies.ts';
import type { Intake } from './intake.ts';
import { endToEndHeaders, measureRequest } from './webhook-request.ts';

const PREFIX = '/webhook/';
const PATH = /^\/webhook\/plugin\/([^/?]*)\/?(?:\?(.*))?$/s;
/** A request target may name the scheme and the host: RFC 9112, 3.2.2. Proxies send such targets. */
const ORIGIN = /^https?:\/\/[^/?]*/i;
/** Percent-encoded characters of routing ids: letters, digits, - and _. They mean the same as themselves: RFC 3986, 2.3. */
const ENCODED_ID_CHARACTER = /%(?:2d|3\d|[46][1-9a-f]|[57][\da]|5f)/gi;
const RETRY_AFTER_S = 5;

interface IngressDeps {
  readonly addresses: Pick<Addresses, 'find' | 'findCachedAccount'>;
  readNetwork(request: IncomingMessage): string;
  /** Limits the requests of each routing id. */
  readonly rateLimits: TokenBuckets;
  /** Limits the requests of all addresses of an account. */
  readonly accountRateLimits: TokenBuckets;
  readonly quota: Pick<DeliveryQuota, 'check' | 'count'>;
  readonly bodies: Pick<IncomingBodies, 'receive'>;
  readonly intake: Pick<Intake, 'accept'>;
  /** Limits the handshakes that wait for their plugins. */
  readonly handshakes: Pick<PlaceLimiter, 'run'>;
  readonly refusals: Pick<RefusalPace, 'answer'>;
  /** Requests a handshake; null: the plugin did not answer in time, so the request is queued as usual. */
  handshake(delivery: NewDelivery): Promise<HandshakeReply | null>;
  /** @param ms from the arrival of the request until its response closed, or its client left */
  answered(status: number, ms: number): void;
  onError(error: Error): void;
}

const withoutOrigin = (url = ''): string => url.replace(ORIGIN, '');
export const isWebhook = (url: string | undefined): boolean => withoutOrigin(url).startsWith(PREFIX);

export function createWebhookHandler(deps: IngressDeps): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    const started = performance.now();
    // Also the id of the delivery, by which deliveries are listed.
    const requestId = orderedId(Date.now());
    response.setHeader('x-request-id', requestId);
    onceClosed(response, () => {
      // A client that leaves in the middle of its request does not wait for an answer.
      const unsent = request.complete ? CLIENT_LEFT_STATUS : problems.bad_request.status;
      deps.answered(sentStatus(response) ?? unsent, performance.now() - started);
    });
    tracedServe(deps, request, response, requestId).catch((error: unknown) => {
      const problem = toProblem(deps, error);
      const answer = () => refuse(request, response, problem, requestId);
      // An outage is not the vendor's doing, and each waiting response would hold one of its connections.
      if (problem.code === 'unavailable') answer();
      else deps.refusals.answer(response, answer);
    });
  };
}

/** A vendor's traceparent becomes a link, not the parent: untrusted senders must not control sampling. */
function tracedServe(deps: IngressDeps, request: IncomingMessage, response: ServerResponse, id: string): Promise<void> {
  const link = request.headers.traceparent;
  const settings = { kind: 'server', parent: null, link: typeof link === 'string' ? link : undefined } as const;
  return traced('webhook', { ...settings, attributes: { deliveryId: id } }, () => serve(deps, request, response, id));
}

async function serve(deps: IngressDeps, request: IncomingMessage, response: ServerResponse, id: string): Promise<void> {
  const fault = findHeadFault(request);
  if (fault) throw fault;
  const [, segment, query = ''] = PATH.exec(withoutOrigin(request.url)) ?? [];
  if (segment === undefined) throw unknown();
  const routingId = segment.replace(ENCODED_ID_CHARACTER, decodeURIComponent);
  const network = deps.readNetwork(request);
  // A flood to another account, or to unknown addresses from the same network, does not delay the requests of this account.
  await waitToBegin(deps.addresses.findCachedAccount(routingId) ?? network, mayBeCostly(request.headers));
  const address = await deps.addresses.find(routingId, network);
  if (address === 'unknown') throw unknown();
  if (address === 'retired') throw new Problem('gone', 'This webhook address was replaced or disconnected.');
  const { channelId, installationId, accountId } = address;
  takeToken(deps.rateLimits.get(routingId), 'to this webhook address');
  takeToken(deps.accountRateLimits.get(accountId), 'to the webhook addresses of this account');
  deps.quota.check(accountId);
  await deps.bodies.receive(request, accountId, async (body) => {
    const delivery: NewDelivery = {
      id,
      channelId,
      installationId,
      accountId,
      routingId,
      query,
      body,
      receivedAt: Date.now(),
      method: request.method ?? 'POST',
      headers: endToEndHeaders(request),
      traceparent: currentTrace(),
    };
    const reply = isHandshake(address, delivery)
      ? await deps.handshakes.run(accountId, () => deps.handshake(delivery))
      : null;
    if (reply) {
      response.writeHead(reply.status, safeHeaders(reply)).end(reply.body ?? '');
      return;
    }
    await deps.intake.accept(delivery);
    deps.quota.count(accountId, measureRequest(delivery));
    send(response, 200, 'application/json', JSON.stringify({ ok: true, id }));
  });
}

/**
 * The address shares its origin with the console, so a plugin's response must never run as a page of it. The browser
 * sandboxes every response, and plugins cannot set cookies, a content policy or instructions to a proxy.
 */
function safeHeaders({ headers = {} }: HandshakeReply): Record<string, string> {
  const allowed = Object.entries(headers).filter(([name]) => HANDSHAKE_HEADERS.includes(name.toLowerCase()));
  return {
    'content-type': 'text/plain; charset=utf-8',
    ...Object.fromEntries(allowed.map(([name, value]) => [name.toLowerCase(), value])),
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  };
}

/** @throws Problem `rate_limited` */
function takeToken(bucket: TokenBucket, where: string): void {
  if (!bucket.consume()) throw createRateLimitProblem(bucket, `too many requests ${where}`);
}

const unknown = () => new Problem('not_found', 'No channel has this webhook address.');

function toProblem(deps: IngressDeps, error: unknown): Problem {
  if (error instanceof Problem) return error;
  const kind = classifyDatabaseError(error);
  if (kind === null || kind === 'rejected_row') deps.onError(error as Error);
  return new Problem('unavailable', 'Webhook requests cannot be stored now. Send it again later.', {
    retryAfter: RETRY_AFTER_S,
  });
}

function refuse(request: IncomingMessage, response: ServerResponse, problem: Problem, requestId: string): void {
  if (response.destroyed || response.headersSent) return void response.destroy();
  if (problem.retryAfter !== undefined) response.setHeader('retry-after', problem.retryAfter);
  if (!request.complete) discardBody(request, response);
  send(response, problem.status, PROBLEM_TYPE, JSON.stringify(problemBody(problem, requestId)));
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);
}
