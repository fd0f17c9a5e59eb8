/** `host.http`: requests to granted hosts at public addresses. Each redirect is checked like the first address. */

import { AmountsByKey } from '../../../db/timing/amounts-by-key.ts';
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import type { SecretMask } from '../../records/secret-mask.ts';
import { holdGrant } from '../held-grant.ts';
import { HostError, type HostHandlers, type HostScope } from '../host-call.ts';
import type { MaskedSource, SecretHandles } from '../secret-handles.ts';
import type { Secrets } from '../secrets.ts';
import { type AnswerBody, readBody, type TakePart } from './answer-body.ts';
import { BodyMemory } from './body-memory.ts';
import { type BodyStream, BodyStreams, STREAM_BOUNDS, type StreamBounds } from './body-streams.ts';
import { describeFailure, type Exchange, type HttpRequest, type Opened, type Redirect, send } from './exchange.ts';
import { dropBodyHeaders, type Headers, keepCrossHostHeaders, requestHeaders } from './headers.ts';
import { readTarget } from './reach.ts';
import { readRequest } from './request.ts';
import { ProcessorTimeError, type RequestRate, RequestRates } from './request-rates.ts';
import { isAllowedPrivate } from './resolution.ts';

interface HttpAnswer extends AnswerBody {
  readonly status: number;
  readonly headers: Headers;
}

/** The answer of `http.openBody`. */
interface OpenedAnswer extends HttpAnswer {
  readonly setCookies: readonly string[];
}

const MAX_REDIRECTS = 5;
/** Maximum number of concurrent requests of one installation. */
const REQUESTS_AT_ONCE = 16;

export interface HttpOptions extends Partial<Exchange> {
  readonly bounds?: StreamBounds;
}

interface Http {
  readonly calls: Pick<HostHandlers, 'http.fetch'>;
  readonly bodies: BodyStreams;
}

/**
 * @param bounds limits of bodies that are read while they arrive. The plugin waits as long for the response as for the next bytes
 * @param memory limits the memory of request bodies, and of response bodies that are read whole
 * @param rates limits the processor time of requests
 */
export function openHttp(
  exchange: Exchange,
  secrets: Pick<Secrets, 'handles' | 'sourceOf'>,
  bounds: StreamBounds = STREAM_BOUNDS,
  memory = new BodyMemory(),
  rates = new RequestRates(),
): Http {
  const running = new AmountsByKey();
  const bodies = new BodyStreams(bounds);
  return {
    bodies,
    calls: {
      'http.fetch': async (scope, { url, init = {} }) => {
        const { installationId, accountId } = scope.plugin;
        if (running.get(installationId) >= REQUESTS_AT_ONCE)
          throw new HostError(`${REQUESTS_AT_ONCE} requests are running; wait until one has ended`);
        return running.during(installationId, async () => {
          const sender: Sender = {
            exchange,
            rate: rates.open(accountId),
            handles: secrets.handles,
            source: secrets.sourceOf(scope.plugin),
          };
          const first = readRequest(requireTarget(scope, url), { url, init }, sender);
          const bodyBytes = first.body?.byteLength ?? 0;
          const redirectsMax = init.redirect === 'error' ? 0 : MAX_REDIRECTS;
          const arrive = (signal: AbortSignal) => followRedirects(scope, first, sender, redirectsMax, signal);
          // A model may think for as long as its call has time before it sends a byte.
          const waitMs = scope.isFromProvider ? bounds.totalMs : bounds.idleMs;
          return withTimeLimit(init.timeoutMs ?? waitMs, scope.signal, (signal) =>
            scope.bodyId === null
              ? memory.during(accountId, async (hold) => {
                  hold(bodyBytes);
                  return readWhole(arrive, signal, (part) => {
                    hold(part.byteLength);
                    return scope.resultTurn.chargePart(part, signal);
                  });
                })
              : openBody(bodies.open(scope.child, scope.bodyId, waitMs), scope, arrive, signal, (stream) =>
                  stream.onClose(memory.hold(accountId, bodyBytes)),
                ),
          );
        });
      },
    },
  };
}

type Arrive = (signal: AbortSignal) => Promise<Arrived>;

async function readWhole(arrive: Arrive, signal: AbortSignal, take: TakePart): Promise<HttpAnswer> {
  const { opened, mask } = await arrive(signal);
  const { status, headers, hostname } = opened;
  try {
    const answer = { status, headers, ...(await readBody(opened.body, headers, take)) };
    return mask.isEmpty ? answer : maskAnswer(answer, mask);
  } catch (error) {
    throw error instanceof HostError ? error : new HostError(describeFailure(hostname, error));
  } finally {
    await opened.close();
  }
}

/**
 * Returns the headers and what has arrived of the body. The rest arrives while the host stays granted, within the stream's bounds.
 *
 * @param holdRequest holds the memory of the request's body until the stream is closed: a server may answer before it has read it
 */
async function openBody(
  stream: BodyStream,
  scope: HostScope,
  arrive: Arrive,
  signal: AbortSignal,
  holdRequest: (stream: BodyStream) => void,
): Promise<OpenedAnswer> {
  try {
    holdRequest(stream);
    const stop = stream.closeOn(signal, 'the call has ended');
    const { opened, mask, url } = await arrive(stream.signal);
    const grant = holdGrant(hostCalls['http.fetch'], scope.installation);
    stream.onClose(grant.release);
    grant.needs((granted) => isGranted(url, granted));
    stream.closeOn(grant.gone, `${url.hostname} is not granted any more`);
    stream.closeOn(scope.child, 'the plugin has ended');
    const bodyBytes = await stream.begin(opened, mask, (part) => scope.resultTurn.chargePart(part, stream.signal));
    stop();
    const { status, headers, setCookies } = opened;
    return { status, ...mask.mask({ headers, setCookies }), bodyText: '', bodyBytes };
  } catch (error) {
    stream.close('the request failed');
    throw error;
  }
}

/** Checks that the address is granted, and ends the call when the grant is revoked. */
function requireTarget(scope: HostScope, address: string): URL {
  const url = readTarget(address, scope.granted());
  scope.needs((granted) => isGranted(url, granted));
  return url;
}

function isGranted(url: URL, granted: readonly string[]): boolean {
  try {
    return readTarget(url.href, granted) !== null;
  } catch {
    return false;
  }
}

/** The dependencies that send a request of one installation. */
interface Sender {
  readonly exchange: Exchange;
  readonly rate: RequestRate;
  readonly handles: SecretHandles;
  readonly source: MaskedSource;
}

/** A response that is not a redirect. */
interface Arrived {
  readonly opened: Opened;
  readonly mask: SecretMask;
  /** The address that answered. */
  readonly url: URL;
}

/** Sends a request with the values of the handles in its headers, read again for each hop: a redirect may lead to another host. */
async function sendFilled(
  { exchange, rate, handles, source }: Sender,
  request: HttpRequest,
  signal: AbortSignal,
): Promise<Arrived | Redirect> {
  const { url } = request;
  const isSafe = url.protocol === 'https:' || isAllowedPrivate(url, exchange);
  const headers = await handles.fillHeaders(request.headers, { hostname: url.hostname, isSafe }, source);
  // Checked again: a secret's value may hold characters that a header must not have.
  if (headers !== request.headers) requestHeaders(headers);
  const answer = await send({ ...request, headers }, exchange, rate, signal);
  return 'location' in answer ? answer : { opened: answer, mask: source.openMask(url.hostname), url };
}

/**
 * A server that repeats the headers of this request, or of an earlier one that it has stored, would show the plugin the values
 * of which it has handles. Only values that this host may have got: the plugin's own server could try which texts are masked.
 */
function maskAnswer(answer: HttpAnswer, mask: SecretMask): HttpAnswer {
  const bytes = Buffer.from(answer.bodyBytes).toString('latin1');
  const masked = mask.maskText(bytes);
  return {
    status: answer.status,
    headers: mask.mask(answer.headers),
    bodyText: mask.maskText(answer.bodyText),
    bodyBytes: masked === bytes ? answer.bodyBytes : Buffer.from(masked, 'latin1'),
  };
}

/** Follows redirects here, because the library cannot check grants. */
async function followRedirects(
  scope: HostScope,
  first: HttpRequest,
  sender: Sender,
  redirectsMax: number,
  signal: AbortSignal,
): Promise<Arrived> {
  let request = first;
  for (let redirects = 0; redirects <= redirectsMax; redirects++) {
    const answer = await sendFilled(sender, request, signal);
    if (!('location' in answer)) return answer;
    if (redirectsMax === 0) break;
    // A server that repeats a header in the address, as many do with `X-Forwarded-Host`, would send a secret to the host of its redirect.
    if (sender.source.openMask(request.url.hostname).isFoundIn(answer.location))
      throw new HostError('the server redirected to an address that contains a secret, which is not allowed');
    request = buildRedirect(scope, request, answer);
  }
  if (redirectsMax === 0) throw new HostError('the server redirected, and the request allows no redirect');
  throw new HostError(`the server redirected more than ${redirectsMax} times`);
}

function buildRedirect(scope: HostScope, from: HttpRequest, { status, location }: Redirect): HttpRequest {
  if (!URL.canParse(location, from.url)) throw new HostError('the server redirected to an invalid address');
  const url = requireTarget(scope, new URL(location, from.url).href);
  if (from.url.protocol === 'https:' && url.protocol === 'http:')
    throw new HostError('the server redirected from https: to http:, which is not allowed');
  const headers = url.origin === from.url.origin ? from.headers : keepCrossHostHeaders(from.headers);
  const becomesGet = status === 303 ? from.method !== 'HEAD' : status < 303 && from.method === 'POST';
  return becomesGet ? { url, method: 'GET', headers: dropBodyHeaders(headers), body: null } : { ...from, url, headers };
}

/** Runs work until it is finished, the scope's signal aborts, or the time limit is over. */
async function withTimeLimit<T>(ms: number, outer: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = AbortSignal.timeout(ms);
  try {
    return await work(AbortSignal.any([outer, late]));
  } catch (error) {
    if (error instanceof ProcessorTimeError || !late.aborted || outer.aborted) throw error;
    throw new HostError(`no complete response within ${ms} ms`);
  }
}
