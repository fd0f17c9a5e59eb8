/** Which headers a plugin may send, which it is shown, and which survive a redirect to another host. */
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { HostError } from '../host-call.ts';

export type Headers = Readonly<Record<string, string>>;

/** Of a request, names and values together, bytes. */
const HEADERS_MAX_BYTES = 32 * 1024;
const HEADERS_MAX = 100;

/** They steer the connection, which is ours. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'];
const OURS = new Set([...HOP_BY_HOP, 'host', 'content-length', 'expect', 'proxy-connection', 'proxy-authorization']);

/** All that goes to another host by a redirect: any other header may be a key that was meant for the first. */
const HARMLESS = new Set(['accept', 'accept-encoding', 'accept-language', 'content-type', 'user-agent']);
/** They describe a body, and go with it. */
const OF_BODY = /^content-/;

const DEFAULTS: Headers = { 'user-agent': 'bulkhead-plugin', 'accept-encoding': 'gzip, deflate, br' };

/**
 * The headers of a request, by lower-case name.
 *
 * @throws HostError naming the first that may not be sent
 */
export function requestHeaders(given: Headers): Headers {
  const headers: Record<string, string> = { ...DEFAULTS };
  let bytes = 0;
  for (const [name, value] of Object.entries(given)) {
    checkHeader(name, value);
    bytes += name.length + value.length;
    headers[name.toLowerCase()] = value;
  }
  if (bytes > HEADERS_MAX_BYTES || Object.keys(headers).length > HEADERS_MAX)
    throw new HostError(`the headers are too many or too long: ${HEADERS_MAX} and ${HEADERS_MAX_BYTES} bytes at most`);
  return headers;
}

function checkHeader(name: string, value: string): void {
  if (OURS.has(name.toLowerCase())) throw new HostError(`the header ${name} is set by the host and cannot be sent`);
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  } catch {
    throw new HostError(
      `${JSON.stringify(name.slice(0, 100))} is not a header that can be sent, by its name or its value`,
    );
  }
}

/** What of a request's headers goes to another host. */
export const harmlessHeaders = (headers: Headers): Headers => pick(headers, (name) => HARMLESS.has(name));

/** What is left of them when the body is not sent again. */
export const bodilessHeaders = (headers: Headers): Headers => pick(headers, (name) => !OF_BODY.test(name));

const pick = (headers: Headers, takes: (name: string) => boolean): Headers =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => takes(name)));

/** An answer's headers as plugins read them: repeated ones joined, those of the connection left out. */
export function answerHeaders(raw: Readonly<Record<string, string | string[] | undefined>>): Headers {
  const shown = Object.entries(raw).flatMap(([name, value]): [string, string][] =>
    value === undefined || name === '__proto__' || HOP_BY_HOP.includes(name)
      ? []
      : [[name, typeof value === 'string' ? value : value.join(', ')]],
  );
  return Object.fromEntries(shown);
}
