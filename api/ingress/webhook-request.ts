/** Reads a vendor's request exactly as sent: bytes, and all end-to-end headers in order. Measures what it takes to keep. */
import type { IncomingMessage } from 'node:http';
import type { NewDelivery, RawHeader } from '../../db/channels/deliveries.ts';
import { withoutSessions } from '../../service/http/console-requests.ts';

/** Hop-by-hop headers (RFC 9110 §7.6.1). The `connection` header can name more. */
const HOP_BY_HOP = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
]);

/** Quotes, brackets and commas of a header in the JSON in which it is stored. Bytes. */
const HEADER_SYNTAX_BYTES = 8;

/** Returns the bytes of query, headers and body, as they are stored. */
export function measureRequest({ query, headers, body }: Pick<NewDelivery, 'query' | 'headers' | 'body'>): number {
  let bytes = query.length + body.byteLength;
  for (const [name, value] of headers) bytes += name.length + value.length + HEADER_SYNTAX_BYTES;
  return bytes;
}

/** Returns names and values in order, without hop-by-hop headers and cookies of the console. */
export function endToEndHeaders(request: IncomingMessage): RawHeader[] {
  const { rawHeaders } = request;
  const named = (request.headers.connection ?? '').toLowerCase().split(',');
  const dropped =
    named.length > 1 || named[0] !== '' ? new Set([...HOP_BY_HOP, ...named.map((one) => one.trim())]) : HOP_BY_HOP;
  const forwarded: RawHeader[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name, value] = [rawHeaders[at] as string, rawHeaders[at + 1] as string];
    if (!dropped.has(name.toLowerCase())) forwarded.push([name, value]);
  }
  return withoutSessions(forwarded);
}
