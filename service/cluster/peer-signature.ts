/** Signs requests to a supervisor, by another one or an API process, with the key of the one that is asked. */
import { createHmac, timingSafeEqual } from 'node:crypto';

/** Names the signature, and how often the request was forwarded. */
export const PEER_HEADER = 'x-bulkhead-peer';
/** The path of notices of new deliveries, each in a parameter `notice`. */
export const PEER_DELIVERIES = '/peer/deliveries';
/** The path that answers when the supervisor knows of everything that was committed before. */
export const PEER_CATCH_UP = '/peer/catch-up';
/** Clocks of two machines may differ by this much. Milliseconds. */
const FRESH_MS = 60_000;

interface PeerRequest {
  readonly method: string;
  readonly path: string;
  /** 1: the first supervisor has forwarded it. */
  readonly hops: number;
}

export function signRequest(key: Buffer, request: PeerRequest, now: number): string {
  return `${request.hops}.${now}.${computeMac(key, request, now)}`;
}

/** @returns how often the request was forwarded; null: the header is not valid for this request */
export function verifyRequest(
  key: Buffer,
  { method, path, header }: Omit<PeerRequest, 'hops'> & { readonly header: unknown },
  now: number,
): number | null {
  const [hops, signedAt, mac = ''] = String(header).split('.');
  const request = { method, path, hops: Number(hops) };
  const expected = Buffer.from(computeMac(key, request, Number(signedAt)));
  const given = Buffer.from(mac);
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
  return Math.abs(now - Number(signedAt)) <= FRESH_MS ? request.hops : null;
}

function computeMac(key: Buffer, { method, path, hops }: PeerRequest, signedAt: number): string {
  return createHmac('sha256', key).update(`${hops}\n${signedAt}\n${method}\n${path}`).digest('base64url');
}
