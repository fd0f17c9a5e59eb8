/** Recognizes requests of the console's own pages, the only ones that may use its cookie. */
import type { FastifyRequest } from 'fastify';
import type { RawHeader } from '../../db/channels/deliveries.ts';
import { sessionCredential } from '../identity/console-sessions.ts';

/** A page of another origin can send it only if CORS allows it. */
const CONSOLE_HEADER = 'x-bulkhead-console';
const NAME = 'bulkhead-session';
/** Of every service: cookies do not tell ports apart, and one of a domain is sent to all its hosts. */
const SESSION_PAIR = new RegExp(`^(__Host-|__Secure-)?${NAME}(-\\d+)?(=|$)`);
/** Methods that change nothing; browsers send them without `Origin` to their own origin. */
const SAFE_METHODS = ['GET', 'HEAD'];

/** The console of this service, as browsers see it. */
export interface ConsoleSite {
  /** Origin of the console's address. */
  readonly origin: string;
  readonly cookieName: string;
  /** Attributes of the cookie beside its lifetime. */
  readonly cookieAttributes: string;
}

/**
 * Describes the console at an address. Cookies do not tell ports apart, so the name does. A name with `__Host-` cannot
 * be set by another host of the same domain.
 *
 * @param domain set if the session API has another host name below it
 */
export function describeConsole(publicUrl: string, domain?: string | undefined): ConsoleSite {
  const { origin, protocol, port } = new URL(publicUrl);
  const isSecure = protocol === 'https:';
  const prefix = !isSecure ? '' : domain === undefined ? '__Host-' : '__Secure-';
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Strict'];
  if (isSecure) attributes.push('Secure');
  if (domain !== undefined) attributes.push(`Domain=${domain}`);
  return {
    origin,
    cookieName: `${prefix}${NAME}${port === '' ? '' : `-${port}`}`,
    cookieAttributes: attributes.join('; '),
  };
}

/**
 * Whether a page of the console sent the request, which a page of another site cannot forge: the header needs CORS, and
 * the browser writes `Origin` and `Sec-Fetch-Site` itself.
 */
export function isFromConsole({ headers, method }: FastifyRequest, { origin }: ConsoleSite): boolean {
  if (headers[CONSOLE_HEADER] === undefined) return false;
  if (headers.origin !== undefined) return headers.origin === origin || isOwnHost(headers.origin, headers.host, origin);
  const site = headers['sec-fetch-site'];
  return SAFE_METHODS.includes(method) && (site === undefined || site === 'same-origin');
}

/** Without https, a service is also used by other names of its machine than the one in its settings. */
const isOwnHost = (origin: string, host: string | undefined, console: string): boolean =>
  console.startsWith('http:') && origin === `http://${host}`;

/**
 * Removes sessions of consoles from headers. A browser also sends them to webhook addresses, which share the console's origin: a
 * plugin's author could lead an operator there by a link.
 */
export const withoutSessions = (headers: readonly RawHeader[]): RawHeader[] =>
  headers.flatMap(([name, value]): RawHeader[] => {
    if (!value.includes(NAME) || name.toLowerCase() !== 'cookie') return [[name, value]];
    const kept = value.split(';').filter((pair) => !SESSION_PAIR.test(pair.trim()));
    return kept.length === 0 ? [] : [[name, kept.join(';').trim()]];
  });

/** Returns the secret in the console's cookie. Null: none, or the request is not the console's. */
export function readSessionSecret(request: FastifyRequest, site: ConsoleSite): string | null {
  if (!isFromConsole(request, site)) return null;
  for (const pair of (request.headers.cookie ?? '').split(';')) {
    const [name, value] = pair.trim().split('=', 2);
    if (name === site.cookieName && value) return value;
  }
  return null;
}

/** Returns what the console's cookie proves, for `SignIn`. Null: nothing. */
export function readSessionCredential(request: FastifyRequest, site: ConsoleSite): string | null {
  const secret = readSessionSecret(request, site);
  return secret === null ? null : sessionCredential(secret);
}

/** @param maxAgeS seconds until it ends; 0 removes it */
export const formatSessionCookie = (site: ConsoleSite, secret: string, maxAgeS: number): string =>
  `${site.cookieName}=${secret}; Max-Age=${maxAgeS}; ${site.cookieAttributes}`;
