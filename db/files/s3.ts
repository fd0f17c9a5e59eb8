/** Objects in a bucket of S3 or a compatible service. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Credentials, encodePath, signRequest } from './aws-signature.ts';
import { BlobStoreUnavailableError } from './blob-errors.ts';

/** Named blobs outside of this machine. */
export interface ObjectStore {
  /** `s3://bucket/folder`. */
  readonly address: string;
  /** @throws BlobStoreUnavailableError */
  put(key: string, bytes: Uint8Array): Promise<void>;
  /**
   * Null: there is no such object.
   *
   * @param maxBytes the rest of a longer object is not read
   * @throws BlobStoreUnavailableError
   */
  get(key: string, maxBytes: number): Promise<Buffer | null>;
  /** Idempotent. */
  delete(key: string): Promise<void>;
}
interface BucketSettings {
  /** `s3://bucket/folder`. */
  readonly address: string;
  /** Address of the service, without a slash at the end. */
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: Credentials;
}

/** Pauses before the second and third attempt. Milliseconds. */
const PAUSES_MS = [200, 1_000];
/** For a request with its body. Milliseconds. */
const ANSWER_MS = 15_000;
/** Enough for an error's code and message. Bytes. */
const PROBLEM_MAX_BYTES = 16_384;
const ERROR_CODE = /<Code>([A-Za-z0-9]{1,60})<\/Code>/;
const TOO_MANY_REQUESTS = 429;
const NOTHING = new Uint8Array();

export function openBucket(settings: BucketSettings): ObjectStore {
  const { address } = settings;
  const url = new URL(address);
  const folder = url.pathname.replace(/^\/+|\/+$/g, '');
  const locate = (key: string): URL =>
    new URL(encodePath(['', url.host, ...(folder === '' ? [] : [folder]), key].join('/')), settings.endpoint);
  return {
    address,
    async put(key, bytes) {
      const { status, body } = await send(settings, 'PUT', locate(key), bytes, PROBLEM_MAX_BYTES);
      if (status !== 200) throw refused(settings, 'store a blob', status, body);
    },
    async get(key, maxBytes) {
      const { status, body } = await send(settings, 'GET', locate(key), NOTHING, maxBytes);
      if (status === 200) return body;
      if (status === 404 && readCode(body) !== 'NoSuchBucket') return null;
      throw refused(settings, 'read a blob', status, body);
    },
    async delete(key) {
      const { status, body } = await send(settings, 'DELETE', locate(key), NOTHING, PROBLEM_MAX_BYTES);
      if (status !== 200 && status !== 204 && status !== 404) throw refused(settings, 'remove a blob', status, body);
    },
  };
}

interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** Repeats what failed for a reason that passes. All requests may be repeated. */
async function send(
  settings: BucketSettings,
  method: string,
  url: URL,
  body: Uint8Array,
  maxBytes: number,
): Promise<Answer> {
  for (let attempt = 0; ; attempt += 1) {
    const pauseMs = PAUSES_MS[attempt];
    const answer = await sendOnce(settings, method, url, body, maxBytes).catch((error: Error) => error);
    const isTransient = answer instanceof Error || answer.status >= 500 || answer.status === TOO_MANY_REQUESTS;
    if (!isTransient) return answer;
    if (pauseMs === undefined) {
      const reason = answer instanceof Error ? describeFailure(answer) : describeAnswer(answer.status, answer.body);
      throw new BlobStoreUnavailableError(
        `The blob store ${settings.address} at ${settings.endpoint} does not answer: ${reason}. It is tried again with the next request.`,
      );
    }
    await sleep(pauseMs);
  }
}

async function sendOnce(
  { credentials, region }: BucketSettings,
  method: string,
  url: URL,
  body: Uint8Array,
  maxBytes: number,
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: signRequest({ method, url, headers: {}, body }, credentials, region, new Date()),
    ...(method === 'PUT' ? { body: new Uint8Array(body) } : {}),
    // A redirect would take the signature to another host.
    redirect: 'manual',
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  return { status: response.status, body: await readBounded(response, response.ok ? maxBytes : PROBLEM_MAX_BYTES) };
}

/** Cuts off what is longer: its hash will not fit. */
async function readBounded(response: Response, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    chunks.push(chunk);
    // Ends the iteration, which cancels the response.
    if (bytes > maxBytes) break;
  }
  return Buffer.concat(chunks);
}

function refused({ address, endpoint }: BucketSettings, what: string, status: number, body: Buffer): Error {
  return new BlobStoreUnavailableError(
    `The blob store ${address} at ${endpoint} refused to ${what}: ${describeAnswer(status, body)}. Check the bucket, AWS_REGION and the access key.`,
  );
}

const readCode = (body: Buffer): string | undefined => ERROR_CODE.exec(body.toString('utf8'))?.[1];

function describeAnswer(status: number, body: Buffer): string {
  const code = readCode(body);
  return code === undefined ? `status ${status}` : `status ${status}, ${code}`;
}

/** `fetch` hides the reason in a cause. */
function describeFailure(error: Error): string {
  const cause = error.cause instanceof AggregateError ? error.cause.errors[0] : error.cause;
  return cause instanceof Error ? cause.message : error.message;
}
