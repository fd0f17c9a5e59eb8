/** Reads JSON bodies strictly: invalid UTF-8 is rejected, not repaired, and an empty body counts as no body. */
import type { FastifyInstance } from 'fastify';
import { Problem } from '../../sdk/contract/errors.ts';

/** How a route answers a body that is not UTF-8. Default: malformed JSON. */
declare module 'fastify' {
  interface FastifyContextConfig {
    readonly refuseNonText?: () => Problem;
  }
}

/** Replaces Fastify's JSON parser and removes its `text/plain` parser, so that other media types are 415. */
export function readJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (body.byteLength === 0) return done(null, undefined);
    const text = decode(body);
    if (text === null) return done(request.routeOptions.config.refuseNonText?.() ?? malformed('it is not UTF-8'));
    return parse(request, text, (error, value) => (error ? done(malformed(error.message)) : done(null, value)));
  });
}

function decode(body: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return null;
  }
}

const malformed = (reason: string) =>
  new Problem('bad_request', `The body is not valid JSON: ${reason.slice(0, 200)}.`);
