/** Reads the request that a plugin describes, before it is sent. */
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import { type HostArgs, HostError } from '../host-call.ts';
import type { SecretHandles, SecretSource } from '../secret-handles.ts';
import type { HttpRequest } from './exchange.ts';
import { requestHeaders } from './headers.ts';

type HttpInit = NonNullable<HostArgs<'http.fetch'>['init']>;

const { maxBytes: BODY_MAX_BYTES } = hostCalls['http.fetch'];

/**
 * @param target the address, which is granted
 * @throws HostError for a header that cannot be sent, a body that its method does not have, and a handle of a secret outside headers
 */
export function readRequest(
  target: URL,
  { url, init = {} }: HostArgs<'http.fetch'>,
  { handles, source }: { readonly handles: SecretHandles; readonly source: SecretSource },
): HttpRequest {
  const headers = requestHeaders(init.headers ?? {});
  const body = encodeBody(init);
  handles.refuseHandle('address', url, source);
  if (typeof init.body === 'string') handles.refuseHandle('body', init.body, source);
  return { url: target, method: init.method ?? 'GET', headers, body };
}

function encodeBody({ method = 'GET', body }: HttpInit): Uint8Array | null {
  if (body === undefined) return null;
  if (method === 'GET' || method === 'HEAD') throw new HostError(`a ${method} request has no body`);
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  if (bytes.byteLength > BODY_MAX_BYTES) throw new HostError(`the body is longer than ${BODY_MAX_BYTES} bytes`);
  return bytes;
}
