/** Opens and checks signed requests to a supervisor, by another one or an API process, with the key of the one that is asked. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Agent, ClientRequest } from 'node:http';
import { request as openRequest } from '../http/node-http.ts';

/** Names the signature, and how often the request was forwarded. */
export const PEER_HEADER = 'x-bulkhead-peer';
/** The path of notices of new deliveries, each in a parameter `notice`. */
export const PEER_DELIVERIES = '/peer/deliveries';
/** The path that answers when the supervisor knows of everything that was committed before. */
export const PEER_CATCH_UP = '/peer/catch-up';
/** Clocks of two machines may differ by this much. Milliseconds. */
const FRESH_MS = 60_000;

export interface PeerRequest {
  readonly method: string;
  readonly path: string;
  /** 1: the first supervisor has forwarded it. */
  readonly hops: number;
  /** Default: none. Those that name the caller are signed. */
  readonly headers?: Readonly<NodeJS.Dict<string | string[]>>;
}

/** The release before this one reads the first three parts only, and sends no others. */
export function signRequest(key: Buffer, request: PeerRequest, now: number): string {
  return [request.hops, now, computeMac(key, request, now), computeCallerMac(key, request, now)].join('.');
}

/** Opens a signed request. The caller ends it. */
export function openPeerRequest(
  agent: Agent,
  { address, peerKey }: { readonly address: string; readonly peerKey: string },
  request: PeerRequest,
  signal?: AbortSignal,
): ClientRequest {
  const { method, path, headers } = request;
  const signature = signRequest(Buffer.from(peerKey, 'base64'), request, Date.now());
  const sent = openRequest(address, {
    method,
    // As it was signed: in a URL it would be normalized, and the other supervisor would refuse the request.
    path,
    agent,
    headers: { ...headers, [PEER_HEADER]: signature },
    ...(signal && { signal }),
  });
  sent.setNoDelay(true);
  return sent;
}

/** @returns how often the request was forwarded; null: the header is not valid for this request */
export function verifyRequest(
  key: Buffer,
  { header, ...asked }: Omit<PeerRequest, 'hops'> & { readonly header: unknown },
  now: number,
): number | null {
  const [hops, signedAt, mac = '', callerMac] = String(header).split('.');
  const request = { ...asked, hops: Number(hops) };
  const at = Number(signedAt);
  if (!isEqual(mac, computeMac(key, request, at))) return null;
  // Absent from the release before. A client cannot remove it: it is in one line with the other parts.
  if (callerMac !== undefined && !isEqual(callerMac, computeCallerMac(key, request, at))) return null;
  return Math.abs(now - at) <= FRESH_MS ? request.hops : null;
}

function computeMac(key: Buffer, request: PeerRequest, signedAt: number): string {
  return createHmac('sha256', key).update(formatRequest(request, signedAt)).digest('base64url');
}

/** Binds a request to its caller, so that credentials of another account before it make it invalid. */
function computeCallerMac(key: Buffer, request: PeerRequest, signedAt: number): string {
  const { authorization = null, cookie = null } = request.headers ?? {};
  const caller = JSON.stringify([authorization, cookie]);
  // Neither a method nor a path contains a line break.
  return createHmac('sha256', key)
    .update(`${formatRequest(request, signedAt)}\n${caller}`)
    .digest('base64url');
}

const formatRequest = ({ method, path, hops }: PeerRequest, signedAt: number): string =>
  `${hops}\n${signedAt}\n${method}\n${path}`;

function isEqual(given: string, expected: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(expected)];
  return left.length === right.length && timingSafeEqual(left, right);
}
