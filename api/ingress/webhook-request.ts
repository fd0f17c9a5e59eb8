/** Reads a vendor's request exactly as sent: bytes, and all end-to-end headers in order. */
import type { IncomingMessage } from 'node:http';
import type { RawHeader } from '../../db/channels/deliveries.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB, SECOND } from '../../sdk/contract/limits.ts';

/** Maximum size of a body: contract §7. */
const BODY_MAX_BYTES = 5 * MIB;
/** Time limit of a body: enough for 5 MiB, and ends slow clients that would hold a connection. Milliseconds. */
const BODY_WITHIN_MS = 30 * SECOND;

/** Hop-by-hop headers (RFC 9110 §7.6.1). The `connection` header can name more. */
const HOP_BY_HOP = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
]);

/** Returns names and values in order, without hop-by-hop headers. */
export function endToEndHeaders(request: IncomingMessage): RawHeader[] {
  const { rawHeaders } = request;
  const named = (request.headers.connection ?? '').toLowerCase().split(',');
  const dropped =
    named.length > 1 || named[0] !== '' ? new Set([...HOP_BY_HOP, ...named.map((one) => one.trim())]) : HOP_BY_HOP;
  const kept: RawHeader[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name, value] = [rawHeaders[at] as string, rawHeaders[at + 1] as string];
    if (!dropped.has(name.toLowerCase())) kept.push([name, value]);
  }
  return kept;
}

/**
 * Reads the body.
 *
 * @throws Problem `too_large` as soon as the size is known; `bad_request` when the body ends early or takes too long
 */
export function readBody(request: IncomingMessage, withinMs: number = BODY_WITHIN_MS): Promise<Buffer> {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > BODY_MAX_BYTES) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const timer = setTimeout(() => settle(() => reject(badRequest('took too long'))), withinMs).unref();
    const onData = (chunk: Buffer): void => {
      chunks.push(chunk);
      bytes += chunk.byteLength;
      if (bytes > BODY_MAX_BYTES) settle(() => reject(tooLarge()));
    };
    const onEnd = (): void =>
      settle(() => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    const onGone = (): void => settle(() => reject(badRequest('ended early')));
    const settle = (end: () => void): void => {
      clearTimeout(timer);
      request.off('data', onData).off('end', onEnd).off('close', onGone);
      end();
    };
    request.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
  });
}

const tooLarge = () => new Problem('too_large', `A webhook request has at most ${BODY_MAX_BYTES} bytes.`);
const badRequest = (what: string) => new Problem('bad_request', `The request’s body ${what}.`);
