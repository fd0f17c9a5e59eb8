/** Receives a multipart upload of a package: streams the zip to a temporary file. The fields may have any order. */
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import multipart, { type Multipart } from '@fastify/multipart';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Staging } from '../../db/files/staging.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { KIB, MIB, SECOND } from '../../sdk/contract/limits.ts';
import { SEM_VER_MAX_CHARS } from '../../sdk/contract/version-numbers.ts';
import { type BodyBounds, LEAST_BYTES_PER_SECOND, readChunks } from '../../service/http/body-reader.ts';

/** Maximum size of an upload, from the specification. Bytes. */
export const UPLOAD_MAX_BYTES = 256 * MIB;
/** Space for boundaries and headers of the two parts. Bytes. */
const ENVELOPE_MAX_BYTES = 64 * KIB;
/** An upload holds one of few places, so a client that sends almost nothing must not hold it for long. */
export const UPLOAD_BOUNDS = {
  maxBytes: UPLOAD_MAX_BYTES + ENVELOPE_MAX_BYTES,
  withinMs: 30 * SECOND,
  leastBytesPerSecond: LEAST_BYTES_PER_SECOND,
} satisfies BodyBounds;
/** The time of the slowest upload that is not refused. Milliseconds. */
export const UPLOAD_MAX_MS =
  UPLOAD_BOUNDS.withinMs + (UPLOAD_BOUNDS.maxBytes / UPLOAD_BOUNDS.leastBytesPerSecond) * SECOND;
/** Maximum number of parts. Unexpected parts are rejected by name; this limit stops a flood of them. */
const PARTS_MAX = 10;

interface Upload {
  /** Path of the zip in the staging directory. */
  readonly path: string;
  readonly semVer: string;
}
interface Found {
  path?: string;
  semVer?: string;
}

/** Makes the routes of a scope receive multipart bodies, and refuse others before they are read. */
export async function takeMultipart(scope: FastifyInstance): Promise<void> {
  scope.addHook('preParsing', async ({ mediaType }) => {
    if (mediaType !== 'multipart/form-data')
      throw new Problem('unsupported_media_type', 'Send the package as multipart/form-data with file and semVer.');
  });
  await scope.register(multipart);
}

/** The size that an upload may have: as its header says, else the maximum. */
export const readUploadBytes = ({ headers }: FastifyRequest): number =>
  Math.min(Number(headers['content-length'] ?? UPLOAD_BOUNDS.maxBytes), UPLOAD_BOUNDS.maxBytes);

/**
 * Receives the parts `file` and `semVer`.
 *
 * @param staging the caller removes it, with the file
 * @throws Problem `too_large` or `bad_request`
 */
export async function receiveUpload(
  request: FastifyRequest,
  staging: Staging,
  bounds: BodyBounds = UPLOAD_BOUNDS,
): Promise<Upload> {
  // Reject at once instead of after receiving 256 MB.
  if (Number(request.headers['content-length'] ?? 0) > bounds.maxBytes) throw tooLarge();
  // The client disconnected during the sign-in: no further event comes, so waiting for the parts would never end.
  if (request.raw.destroyed) throw new Problem('bad_request', 'The upload was interrupted.');
  const ended = new AbortController();
  try {
    // Both read the same bytes: one parses them, the other bounds them.
    const [{ path, semVer }] = await Promise.all([
      receiveParts(request, staging, ended.signal),
      readChunks(request.raw, request.headers['content-length'], bounds, () => undefined),
    ]);
    if (path === undefined) throw missing('file', 'the zip');
    if (semVer === undefined) throw missing('semVer', 'the version number');
    return { path, semVer };
  } catch (error) {
    ended.abort();
    throw toProblem(error);
  }
}

async function receiveParts(request: FastifyRequest, staging: Staging, signal: AbortSignal): Promise<Found> {
  const found: Found = {};
  for await (const part of request.parts({ limits: partLimits })) {
    signal.throwIfAborted();
    await receivePart(part, found, staging, signal);
  }
  return found;
}

const partLimits = {
  fileSize: UPLOAD_MAX_BYTES,
  fieldSize: SEM_VER_MAX_CHARS * 4 + 1,
  fieldNameSize: 100,
  headerPairs: 20,
  parts: PARTS_MAX,
  fields: PARTS_MAX,
  files: 2,
};

async function receivePart(part: Multipart, found: Found, staging: Staging, signal: AbortSignal): Promise<void> {
  const name = part.fieldname;
  if (name === 'file' && part.type === 'file' && found.path === undefined) {
    found.path = staging.scratch();
    await pipeline(part.file, createWriteStream(found.path, { flags: 'wx', mode: 0o600 }), { signal });
    if (part.file.truncated) throw tooLarge();
  } else if (name === 'semVer' && part.type === 'field' && found.semVer === undefined) {
    if (typeof part.value !== 'string') throw missing('semVer', 'the version number, as text');
    found.semVer = part.valueTruncated ? 'x'.repeat(SEM_VER_MAX_CHARS + 1) : part.value;
  } else {
    const twice = (name === 'file' && found.path) || (name === 'semVer' && found.semVer);
    const message = twice ? 'was sent twice' : 'is not expected; send one file named file and one field named semVer';
    throw new Problem('bad_request', `The part “${String(name).slice(0, 100)}” ${message}.`);
  }
}

/** A malformed multipart body is the client's fault; a full disk is not. */
function toProblem(error: unknown): unknown {
  if (error instanceof Problem && error.code === 'too_large') return tooLarge();
  if (error instanceof Problem || !(error instanceof Error) || 'syscall' in error) return error;
  if ('code' in error && error.code === 'FST_REQ_FILE_TOO_LARGE') return tooLarge();
  return new Problem(
    'bad_request',
    'The multipart body cannot be read: it is malformed or ends too early. Send one file named file and one field named semVer.',
  );
}

const tooLarge = () => new Problem('too_large', `The zip is larger than ${UPLOAD_MAX_BYTES} bytes (256 MB).`);
const missing = (field: string, what: string) =>
  new Problem('bad_request', `The part “${field}” is missing: ${what}.`, {
    errors: [{ field, message: 'is required' }],
  });
