/** Objects in a bucket of S3 or a compatible service. */
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { KIB, SECOND } from '../../sdk/contract/limits.ts';
import { removeTrailingSlashes } from '../../sdk/session/web-addresses.ts';
import { type Credentials, encodePath, signRequest } from './aws-signature.ts';
import { hashBytes } from './blob-cache.ts';
import { BlobRefusedError, BlobStoreUnavailableError } from './blob-errors.ts';
import { readBounded } from './bounded-body.ts';

/** What an object shall contain. */
export interface ObjectContent {
  readonly sha256: string;
  readonly sizeBytes: number;
  /** Called for each attempt. */
  open(): Uint8Array<ArrayBuffer> | Readable;
}
export const toContent = (bytes: Uint8Array): ObjectContent => ({
  sha256: hashBytes(bytes),
  sizeBytes: bytes.byteLength,
  open: () => new Uint8Array(bytes),
});

/** Named blobs outside of this machine. */
export interface ObjectStore {
  /** `s3://bucket/folder`. */
  readonly address: string;
  /** @throws BlobStoreUnavailableError */
  put(key: string, content: ObjectContent): Promise<void>;
  /**
   * Null: there is no such object.
   *
   * @param maxBytes the rest of a longer object is not read
   * @throws BlobStoreUnavailableError
   */
  get(key: string, maxBytes: number): Promise<Buffer | null>;
  /**
   * Reads a part of an object: shorter than asked for where the object ends earlier. Null: there is no such object.
   *
   * @throws BlobStoreUnavailableError
   */
  getPiece(key: string, start: number, bytes: number): Promise<Buffer | null>;
  /**
   * Idempotent.
   *
   * @throws BlobRefusedError or another BlobStoreUnavailableError
   */
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
/** For a request without its body, and the answer to it. Milliseconds. */
const ANSWER_MS = 15_000;
/** Slower connections to a bucket cannot be used: a body gets this much more time. Bytes per second. */
const LEAST_BYTES_PER_SECOND = 512 * KIB;
/** Enough for an error's code and message. Bytes. */
const PROBLEM_MAX_BYTES = 16_384;
const ERROR_CODE = /<Code>([A-Za-z0-9]{1,60})<\/Code>/;
const BAD_REQUEST = 400;
const TOO_MANY_REQUESTS = 429;
/** Code of S3 for a body that did not arrive in time, such as from a busy machine. */
const BODY_STALLED = 'RequestTimeout';
/** Code of S3 for a signature whose time is more than 15 minutes off. */
const CLOCK_OFF = 'RequestTimeTooSkewed';
const PARTIAL_CONTENT = 206;
const RANGE_NOT_SATISFIABLE = 416;
const NOTHING = toContent(new Uint8Array());

export function openBucket(settings: BucketSettings): ObjectStore {
  const { address } = settings;
  const url = new URL(address);
  const folder = removeTrailingSlashes(url.pathname.replace(/^\/+/, ''));
  // It may have a path, such as `/storage/v1/s3` of Supabase.
  const endpoint = removeTrailingSlashes(settings.endpoint);
  const locate = (key: string): URL => {
    const path = encodePath(['', url.host, ...(folder === '' ? [] : [folder]), key].join('/'));
    return new URL(`${endpoint}${path}`);
  };
  return {
    address,
    async put(key, content) {
      const { status, body } = await send(settings, { ...PLAIN, method: 'PUT', url: locate(key), content });
      if (status !== 200) throw refused(settings, 'store a blob', status, body);
    },
    async get(key, maxBytes) {
      const { status, body } = await send(settings, { ...PLAIN, method: 'GET', url: locate(key), maxBytes });
      if (status === 200) return body;
      if (isMissing(status, body)) return null;
      throw refused(settings, 'read a blob', status, body);
    },
    async getPiece(key, start, bytes) {
      const headers = { range: `bytes=${start}-${start + bytes - 1}` };
      const request = { ...PLAIN, method: 'GET', url: locate(key), headers, maxBytes: bytes };
      const { status, body } = await send(settings, request);
      if (status === PARTIAL_CONTENT) return body;
      if (status === RANGE_NOT_SATISFIABLE) return Buffer.alloc(0);
      if (isMissing(status, body)) return null;
      throw refused(settings, 'read a range of a blob', status, body);
    },
    async delete(key) {
      const { status, body } = await send(settings, { ...PLAIN, method: 'DELETE', url: locate(key) });
      if (status !== 200 && status !== 204 && status !== 404) throw refused(settings, 'remove a blob', status, body);
    },
  };
}

interface BucketRequest {
  readonly method: string;
  readonly url: URL;
  /** Not signed: S3 requires that of its own headers only. */
  readonly headers: Readonly<Record<string, string>>;
  readonly content: ObjectContent;
  /** The rest of a longer answer is not read. */
  readonly maxBytes: number;
}
const PLAIN = { headers: {}, content: NOTHING, maxBytes: PROBLEM_MAX_BYTES };

interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** Repeats what failed for a reason that passes. All requests may be repeated. */
async function send(settings: BucketSettings, request: BucketRequest): Promise<Answer> {
  for (let attempt = 0; ; attempt += 1) {
    const pauseMs = PAUSES_MS[attempt];
    const answer = await sendOnce(settings, request).catch((error: Error) => error);
    if (!(answer instanceof Error || isTransient(answer))) return answer;
    if (pauseMs === undefined) {
      const reason = answer instanceof Error ? describeFailure(answer) : describeAnswer(answer.status, answer.body);
      throw new BlobStoreUnavailableError(
        `The blob store ${settings.address} at ${settings.endpoint} does not answer: ${reason}. It is tried again with the next request.`,
      );
    }
    await sleep(pauseMs);
  }
}

const isTransient = ({ status, body }: Answer): boolean =>
  status >= 500 || status === TOO_MANY_REQUESTS || (status === BAD_REQUEST && readCode(body) === BODY_STALLED);

async function sendOnce(
  { credentials, region }: BucketSettings,
  { method, url, headers, content, maxBytes }: BucketRequest,
): Promise<Answer> {
  const signed = { method, url, headers: {}, bodySha256: content.sha256 };
  const sent = method === 'PUT' ? content.open() : null;
  try {
    const response = await fetch(url, {
      method,
      headers: {
        ...headers,
        ...signRequest(signed, credentials, region, new Date()),
        // Without it a stream is sent in chunks, which S3 refuses.
        ...(sent === null ? {} : { 'content-length': String(content.sizeBytes) }),
      },
      ...(sent === null
        ? {}
        : { body: sent instanceof Readable ? (Readable.toWeb(sent) as ReadableStream) : sent, duplex: 'half' }),
      // A redirect would take the signature to another host.
      redirect: 'manual',
      signal: AbortSignal.timeout(computeLimitMs(Math.max(content.sizeBytes, maxBytes))),
    });
    // The hash of one that is longer will not fit.
    return { status: response.status, body: await readBounded(response, response.ok ? maxBytes : PROBLEM_MAX_BYTES) };
  } finally {
    // Not read to its end where the request failed.
    if (sent instanceof Readable) sent.destroy();
  }
}

const computeLimitMs = (bytes: number): number => ANSWER_MS + Math.ceil((bytes / LEAST_BYTES_PER_SECOND) * SECOND);

function refused({ address, endpoint }: BucketSettings, what: string, status: number, body: Buffer): Error {
  const causes =
    readCode(body) === CLOCK_OFF ? 'the clock of this machine' : 'the bucket, AWS_REGION and the access key';
  return new BlobRefusedError(
    `The blob store ${address} at ${endpoint} refused to ${what}: ${describeAnswer(status, body)}. Check ${causes}.`,
  );
}

const isMissing = (status: number, body: Buffer): boolean => status === 404 && readCode(body) !== 'NoSuchBucket';

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
