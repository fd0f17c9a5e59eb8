/** Decides which headers a plugin may send, which it sees, and which are kept on a redirect to another host. */
import { validateHeaderName, validateHeaderValue } from '../../../service/http/node-http.ts';
import { HostError } from '../host-call.ts';

export type Headers = Readonly<Record<string, string>>;

/** Values of `content-encoding` that `decodeBody` decodes. */
const CODINGS = ['gzip', 'x-gzip', 'deflate'] as const;
export type Coding = (typeof CODINGS)[number];

/** Maximum size of request headers, names and values together. Bytes. */
const HEADERS_MAX_BYTES = 32 * 1024;
const HEADERS_MAX = 100;
/** Codings of `accept-encoding` that are read; libraries ask for four. */
const ACCEPTED_MAX = 32;

/** Hop-by-hop headers and those that frame the message; only the host sets them. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'];
const SET_BY_HOST = new Set([
  ...HOP_BY_HOP,
  'host',
  'content-length',
  'expect',
  'proxy-connection',
  'proxy-authorization',
]);

/** Headers that are kept on a redirect to another host. Any other may contain a secret for the first host. */
const CROSS_HOST = new Set(['accept', 'accept-encoding', 'accept-language', 'content-type', 'user-agent']);
/** Headers that describe a body; removed with it. */
const OF_BODY = /^content-/;

/** Without `deflate`: some servers send it without the header of zlib, which its decoder requires. */
const DEFAULTS: Headers = { 'user-agent': 'bulkhead-plugin', 'accept-encoding': 'gzip' };

/** Returns the headers of a request by lower-case name. @throws HostError naming the first that is not allowed */
export function requestHeaders(given: Headers): Headers {
  const headers: Record<string, string> = { ...DEFAULTS };
  const entries = Object.entries(given);
  // Before anything reads them: names and values may fill a frame.
  const bytes = entries.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (bytes > HEADERS_MAX_BYTES) throw tooLarge();
  for (const [name, value] of entries) {
    checkHeader(name, value);
    const lower = name.toLowerCase();
    headers[lower] = lower === 'accept-encoding' ? keepUnderstood(value) : value;
  }
  if (Object.keys(headers).length > HEADERS_MAX) throw tooLarge();
  return headers;
}

const tooLarge = (): HostError =>
  new HostError(`the headers are too many or too long: ${HEADERS_MAX} and ${HEADERS_MAX_BYTES} bytes at most`);

const ACCEPTED: ReadonlySet<string> = new Set([...CODINGS, 'identity']);

/** Removes the codings that the host does not decode: libraries ask for `br` by themselves, and its answer would be refused. */
const keepUnderstood = (codings: string): string =>
  codings
    .split(',', ACCEPTED_MAX)
    .filter((coding) => ACCEPTED.has(coding.split(';', 1)[0]?.trim().toLowerCase() ?? ''))
    .join(',')
    .trim() || 'identity';

function checkHeader(name: string, value: string): void {
  if (SET_BY_HOST.has(name.toLowerCase()))
    throw new HostError(`the header ${name} is set by the host and cannot be sent`);
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  } catch {
    throw new HostError(
      `${JSON.stringify(name.slice(0, 100))} is not a header that can be sent, by its name or its value`,
    );
  }
}

/** Keeps the headers that may be sent to another host. */
export const keepCrossHostHeaders = (headers: Headers): Headers => pick(headers, (name) => CROSS_HOST.has(name));

/** Keeps the headers that remain when the body is not sent again. */
export const dropBodyHeaders = (headers: Headers): Headers => pick(headers, (name) => !OF_BODY.test(name));

const pick = (headers: Headers, takes: (name: string) => boolean): Headers =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => takes(name)));

/** Returns a response's headers for plugins: repeated ones joined, without hop-by-hop headers. */
export function readHeaders(raw: Readonly<Record<string, string | string[] | undefined>>): Headers {
  const shown = Object.entries(raw).flatMap(([name, value]): [string, string][] =>
    value === undefined || name === '__proto__' || HOP_BY_HOP.includes(name)
      ? []
      : [[name, typeof value === 'string' ? value : value.join(', ')]],
  );
  return Object.fromEntries(shown);
}
