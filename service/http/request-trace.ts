/** Traces each request as a span, and adds the request id to the log lines of its handler. */
import type { FastifyInstance } from 'fastify';
import { withLogIds } from '../telemetry/log-ids.ts';
import { isTracing, traced } from '../telemetry/tracing.ts';
import { onceClosed } from './closed-responses.ts';

/**
 * The span is a child of the `traceparent` that a signed-in caller sends. It starts before the handler and not with the
 * request: the body is read in a separate async context, so later code would not find the span.
 */
export function traceRequests(app: FastifyInstance): void {
  app.addHook('preHandler', (request, reply, done) => {
    if (!isTracing()) return withLogIds({ requestId: request.id }, done);
    const ended = Promise.withResolvers<void>();
    reply.raw.once('finish', ended.resolve);
    onceClosed(reply.raw, ended.resolve);
    const { traceparent } = request.headers;
    const { config, url = 'unknown' } = request.routeOptions;
    const route = config.label ?? url;
    const attributes = { 'http.request.method': request.method, 'http.route': route, requestId: request.id };
    const parent = request.caller && typeof traceparent === 'string' ? traceparent : null;
    void traced(`${request.method} ${route}`, { kind: 'server', parent, attributes }, async (span) => {
      withLogIds({ requestId: request.id }, done);
      await ended.promise;
      span.setAttributes({ 'http.response.status_code': reply.statusCode });
      if (reply.statusCode >= 500) span.markFailed();
    });
  });
}
