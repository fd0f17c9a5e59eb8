/** Each request of the session API as a span, below the caller's own where it sends a traceparent, and as an id of log lines. */
import type { FastifyInstance } from 'fastify';
import { withLogIds } from '../../service/telemetry/log-ids.ts';
import { isTracing, traced } from '../../service/telemetry/tracing.ts';

/**
 * Adds it. Before the handler, not at the first byte: a body is read in a context of its own, and what runs after it would
 * not be found below the span.
 */
export function traceRequests(app: FastifyInstance): void {
  app.addHook('preHandler', (request, reply, done) => {
    if (!isTracing()) return withLogIds({ requestId: request.id }, done);
    const ended = Promise.withResolvers<void>();
    for (const event of ['finish', 'close']) reply.raw.once(event, () => ended.resolve());
    const { traceparent } = request.headers;
    const route = request.routeOptions.url ?? 'unknown';
    const facts = { 'http.request.method': request.method, 'http.route': route, requestId: request.id };
    const parent = typeof traceparent === 'string' ? traceparent : null;
    void traced(`${request.method} ${route}`, { kind: 'server', parent, facts }, async (span) => {
      withLogIds({ requestId: request.id }, done);
      await ended.promise;
      span.note({ 'http.response.status_code': reply.statusCode });
      if (reply.statusCode >= 500) span.fail();
    });
  });
}
