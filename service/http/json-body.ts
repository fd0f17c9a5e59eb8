/** Reads JSON bodies: bounded in bytes, values and depth, and refused rather than repaired where they are not UTF-8. */
import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { UNSTORABLE } from '../../db/postgres/storable-json.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { SECOND } from '../../sdk/contract/limits.ts';
import { COSTLY_BYTES, waitForLoopTurn } from '../timing/loop-turns.ts';
import { requireCaller } from './authentication.ts';
import { BodyInFlight } from './body-in-flight.ts';
import { BodyChunks, readChunks } from './body-reader.ts';
import { ByteBudget, type ByteLimits } from './byte-budget.ts';
import { onceClosed } from './closed-responses.ts';
import { createBadRequest } from './errors.ts';
import { JsonParser } from './json-parser.ts';
import { createRetryProblem } from './retry-problem.ts';
import { isJsonBody } from './schemas.ts';

/** Enough for the largest body over a slow line. Milliseconds. */
const BODY_WITHIN_MS = 60 * SECOND;
/**
 * How many bodies of one sender may be incomplete at once: a slow one holds its connection for up to `BODY_WITHIN_MS`. With 128 KiB
 * each, so many fill an account's 16 MiB in flight. Most bodies arrive together with their headers and are incomplete for no time.
 */
const INCOMPLETE_MAX = 128;
const INCOMPLETE_RETRY_AFTER_S = 1;

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * How the route answers a body that is not UTF-8. It also checks the texts of the body itself, because it names the file
     * that holds one. Default: as malformed JSON.
     */
    readonly refuseNonText?: () => Problem;
    /** The body may have properties such as `__proto__`: the route passes them on and copies none of them. */
    readonly anyPropertyNames?: true;
  }
  interface FastifyRequest {
    /** Null: the request has no body. */
    bodyInFlight: BodyInFlight | null;
  }
}

/**
 * Replaces Fastify's JSON parser and removes the one for `text/plain`, so that anything else is 415.
 *
 * @param inFlight limits bodies from their first byte to the end of their response, and of their handler if that is later
 * @param findSender whose share of the limits a request uses: its account, or its network where requests need no token
 */
export function readJsonBodies(
  app: FastifyInstance,
  inFlight: ByteLimits,
  findSender = (request: FastifyRequest): string => requireCaller(request).id,
): void {
  const budget = new ByteBudget(inFlight);
  const incomplete = new AmountsByKey();
  const parser = new JsonParser();
  // Not a part of the async function, which would keep the bytes while the value waits for its turn. Joining is a part of the work: it
  // copies the body, and the memory makes V8 collect garbage.
  const parse = (chunks: BodyChunks, { bodyLimit, config }: FastifyRequest['routeOptions']) =>
    parser.parse({
      body: chunks.takeJoined(),
      maxBytes: bodyLimit,
      anyNames: config.anyPropertyNames === true,
      anyTexts: config.refuseNonText !== undefined,
    });
  app.addHook('onClose', () => parser.close());
  app.removeAllContentTypeParsers();
  app.decorateRequest('bodyInFlight', null);
  app.addHook('onRequest', async (request, { raw }) => {
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
    if (length === undefined && encoding === undefined) return;
    const body = new BodyInFlight(budget);
    request.bodyInFlight = body;
    onceClosed(raw, () => body.closeResponse());
  });
  app.addHook('onRoute', (route) => {
    const { handler } = route;
    route.handler = function handle(request, reply) {
      const work = () => handler.call(this, request, reply);
      return request.bodyInFlight === null ? work() : request.bodyInFlight.handle(work);
    };
  });
  app.addHook('onSend', ({ bodyInFlight }, _reply, payload, done) => {
    bodyInFlight?.endUnhandled();
    done(null, payload);
  });
  const readValue = async (request: FastifyRequest, payload: Readable, body: BodyInFlight): Promise<unknown> => {
    const { bodyLimit, config } = request.routeOptions;
    const sender = findSender(request);
    if (incomplete.get(sender) >= INCOMPLETE_MAX) throw tooManyIncomplete();
    const chunks = new BodyChunks();
    const bounds = { maxBytes: bodyLimit, withinMs: BODY_WITHIN_MS };
    const addChunk = (chunk: Buffer): void => {
      body.add(sender, chunk.byteLength);
      chunks.add(chunk);
    };
    await incomplete.during(sender, () => readChunks(payload, request.headers['content-length'], bounds, addChunk));
    if (body.bytes === 0) return undefined;
    const isCostly = body.bytes > COSTLY_BYTES;
    if (isCostly) await waitForTurnOf(request, sender);
    const result = await parse(chunks, request.routeOptions);
    // The check of the value and the call with it take as long as the parsing.
    if (isCostly) await waitForTurnOf(request, `use ${sender}`);
    if ('value' in result) {
      if (result.value === null && isJsonBody(request.routeOptions.schema?.body))
        throw createBadRequest('body', [{ field: '', message: 'must be an object, not null' }]);
      return result.value;
    }
    if (result.fault === 'unstorable') {
      // The form of the refusal may need the body, such as the id of a message of JSON-RPC.
      request.body = result.refused;
      throw createBadRequest('body', [{ field: result.field, message: UNSTORABLE }]);
    }
    if (result.fault !== 'not_utf8') throw new Problem(result.fault, result.detail);
    throw config.refuseNonText?.() ?? new Problem('bad_request', 'The body is not valid JSON: it is not UTF-8.');
  };
  app.addContentTypeParser('application/json', async (request: FastifyRequest, payload: Readable) => {
    const { bodyInFlight: body } = request;
    return body === null ? undefined : body.read(() => readValue(request, payload, body));
  });
}

/** @throws Problem where the client has left meanwhile: its body is neither parsed nor handled, so it costs no processor time */
async function waitForTurnOf({ raw }: FastifyRequest, key: string): Promise<void> {
  await waitForLoopTurn(key);
  if (raw.socket.destroyed) throw new Problem('bad_request', 'The client left before its request was handled.');
}

const tooManyIncomplete = (): Problem =>
  createRetryProblem(
    'rate_limited',
    `${INCOMPLETE_MAX} of your requests have not sent their whole bodies yet. Send fewer bodies at once.`,
    INCOMPLETE_RETRY_AFTER_S,
  );
