/** Signs requests to S3 and compatible services: AWS Signature Version 4, with the hash of the body. */
import { createHmac, hash } from 'node:crypto';

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Only temporary credentials have one. */
  readonly sessionToken: string | undefined;
}
interface SignedRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** SHA-256 of the body, lower-case hex. */
  readonly bodySha256: string;
}

const ALGORITHM = 'AWS4-HMAC-SHA256';
const SERVICE = 's3';
/** Characters that AWS encodes and `encodeURIComponent` does not. */
const RESERVED = /[!'()*]/g;

/** Encodes a path as S3 and the signature expect it. */
export const encodePath = (path: string): string =>
  path
    .split('/')
    .map((part) =>
      encodeURIComponent(part).replace(RESERVED, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`),
    )
    .join('/');

/**
 * @param request a URL without a query, its path encoded by `encodePath`
 * @param now of the signature; services refuse one that is more than 15 minutes off
 */
export function signRequest(
  { method, url, headers, bodySha256 }: SignedRequest,
  { accessKeyId, secretAccessKey, sessionToken }: Credentials,
  region: string,
  now: Date,
): Record<string, string> {
  const time = now.toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const scope = [time.slice(0, 8), region, SERVICE, 'aws4_request'];
  const signed: Record<string, string> = {
    ...headers,
    host: url.host,
    'x-amz-content-sha256': bodySha256,
    'x-amz-date': time,
    ...(sessionToken === undefined ? {} : { 'x-amz-security-token': sessionToken }),
  };
  const names = Object.keys(signed).sort();
  const lines = names.map((name) => `${name}:${signed[name]?.trim()}\n`).join('');
  const canonical = [method, url.pathname, '', lines, names.join(';'), bodySha256].join('\n');
  const toSign = [ALGORITHM, time, scope.join('/'), hash('sha256', canonical)].join('\n');
  const key = scope.reduce<string | Buffer>((secret, part) => hmac(secret, part), `AWS4${secretAccessKey}`);
  const signature = hmac(key, toSign).toString('hex');
  const { host: _, ...sent } = signed;
  const authorization = `${ALGORITHM} Credential=${accessKeyId}/${scope.join('/')}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
  return { ...sent, authorization };
}

const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();
