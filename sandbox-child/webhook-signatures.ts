/** Verifies webhook signatures in the schemes of vendors. Runs in the child and in the supervisor. */
import type { webcrypto } from 'node:crypto';

/** The part of a webhook request that a verification reads: fields of `channel.receive` and `channel.handshake`. */
export interface SignedRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyBytes: Uint8Array;
  /** When the request arrived. Missing: now. */
  readonly receivedAt?: string | undefined;
}
export interface Tolerance {
  readonly toleranceSeconds?: number | undefined;
}
export type Check = (request: SignedRequest, secret: string, options?: Tolerance | undefined) => Promise<boolean>;
export type Scheme = 'Standard' | 'Stripe' | 'GitHub' | 'Slack';

/** Default for the largest difference between a timestamp and the arrival of the request. Standard Webhooks, Stripe and Slack recommend 5 minutes. */
const TOLERANCE_SECONDS = 300;
/** Maximum number of signatures checked in one header. Vendors send more than one only while they rotate a secret. */
const SIGNATURES_MAX = 16;
/** Maximum number of parts of one header that are read: its signatures, with a timestamp and signatures of other versions. */
const PARTS_MAX = 64;

const encoder = new TextEncoder();

/** Begins the text of an error about a secret. */
const SECRET_FAULT = 'webhooks: the secret is';

/** Whether a verification failed because of its secret. @param message of the error, which may quote the one of the supervisor */
export const isSecretFault = (message: string): boolean => message.includes(SECRET_FAULT);

/** Resolves with false for an invalid signature, and rejects with a TypeError for a missing or malformed secret. */
export const verifySignature = (
  scheme: Scheme,
  request: SignedRequest,
  secret: string,
  options?: Tolerance | undefined,
): Promise<boolean> => CHECKS[scheme](request, secret, options);

const verifyStandard: Check = async (request, secret, options) => {
  const key = decodeBase64(requireSecret(secret).replace(/^whsec_/, ''));
  if (!key || key.length === 0)
    throw new TypeError(`${SECRET_FAULT} not base64. Set it as the vendor shows it, with or without "whsec_"`);
  const prefix = readHeader(request, 'webhook-id') === null ? 'svix' : 'webhook';
  const id = readHeader(request, `${prefix}-id`);
  const timestamp = readHeader(request, `${prefix}-timestamp`);
  const sent = readHeader(request, `${prefix}-signature`);
  if (id === null || sent === null || !isFresh(request, timestamp, options)) return false;
  const signatures = listTagged(sent.split(' ', PARTS_MAX), 'v1,').map(decodeBase64);
  return isSignedBy(key, `${id}.${timestamp}.`, request, signatures);
};

const verifyStripe: Check = async (request, secret, options) => {
  const key = encoder.encode(requireSecret(secret));
  const parts = readHeader(request, 'stripe-signature')?.split(',', PARTS_MAX) ?? [];
  const timestamp = listTagged(parts, 't=')[0] ?? null;
  if (!isFresh(request, timestamp, options)) return false;
  return isSignedBy(key, `${timestamp}.`, request, listTagged(parts, 'v1=').map(decodeHex));
};

const verifyGitHub: Check = async (request, secret) => {
  const key = encoder.encode(requireSecret(secret));
  const sent = readHeader(request, 'x-hub-signature-256') ?? '';
  return isSignedBy(key, '', request, listTagged([sent], 'sha256=').map(decodeHex));
};

const verifySlack: Check = async (request, secret, options) => {
  const key = encoder.encode(requireSecret(secret));
  const timestamp = readHeader(request, 'x-slack-request-timestamp');
  if (!isFresh(request, timestamp, options)) return false;
  const sent = readHeader(request, 'x-slack-signature') ?? '';
  return isSignedBy(key, `v0:${timestamp}:`, request, listTagged([sent], 'v0=').map(decodeHex));
};

const CHECKS: Readonly<Record<Scheme, Check>> = {
  Standard: verifyStandard,
  Stripe: verifyStripe,
  GitHub: verifyGitHub,
  Slack: verifySlack,
};

function requireSecret(secret: unknown): string {
  if (typeof secret === 'string' && secret !== '') return secret;
  throw new TypeError(`${SECRET_FAULT} missing. Read it with host.secrets.get(name)`);
}

function readHeader(request: SignedRequest, name: string): string | null {
  const value: unknown = Object.hasOwn(request.headers, name) ? request.headers[name] : null;
  return typeof value === 'string' ? value : null;
}

/**
 * Whether the timestamp is near the arrival of the request. A genuine delivery may wait hours for its attempt, and a captured request
 * that is sent again arrives late.
 */
function isFresh(
  { receivedAt }: SignedRequest,
  timestamp: string | null,
  options?: Tolerance | undefined,
): timestamp is string {
  if (timestamp === null || !/^\d{1,12}$/.test(timestamp)) return false;
  const tolerance = options?.toleranceSeconds ?? TOLERANCE_SECONDS;
  const arrived = receivedAt === undefined ? Date.now() : Date.parse(receivedAt);
  // An arrival or a tolerance of NaN makes the comparison false, so the timestamp is refused.
  return Math.abs(arrived / 1000 - Number(timestamp)) <= tolerance;
}

function listTagged(parts: readonly string[], tag: string): string[] {
  const found = parts.map((part) => part.trim()).filter((part) => part.startsWith(tag));
  return found.slice(0, SIGNATURES_MAX).map((part) => part.slice(tag.length));
}

function decodeBase64(value: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(value)) return null;
  try {
    return Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

function decodeHex(value: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[0-9a-f]{64}$/i.test(value)) return null;
  return Uint8Array.from({ length: 32 }, (_, at) => Number.parseInt(value.slice(at * 2, at * 2 + 2), 16));
}

/** Whether one of the signatures is the HMAC-SHA-256 of prefix and body under the secret. `verify` compares in constant time. */
async function isSignedBy(
  secret: Uint8Array<ArrayBuffer>,
  prefix: string,
  request: SignedRequest,
  signatures: readonly (Uint8Array<ArrayBuffer> | null)[],
): Promise<boolean> {
  const { subtle }: webcrypto.Crypto = process.getBuiltinModule('node:crypto').webcrypto;
  const key = await subtle.importKey('raw', secret, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  const start = encoder.encode(prefix);
  const signed = new Uint8Array(start.length + request.bodyBytes.length);
  signed.set(start);
  signed.set(request.bodyBytes, start.length);
  for (const signature of signatures) {
    if (signature && (await subtle.verify('HMAC', key, signature, signed))) return true;
  }
  return false;
}
