/** The operators' own port: is it alive, can it serve, what does it count. Not for the public. */
import fastify, { type FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import { checkDatabase, readinessOf } from '../../service/lifecycle/readiness.ts';
import { RELEASE } from '../../service/settings/release.ts';
import type { Metrics } from './metrics.ts';

export interface OperationsDeps {
  readonly pool: Pool;
  readonly metrics: Pick<Metrics, 'registry'>;
  /** The process has been told to end: it serves what it has and wants nothing new. */
  isStopping(): boolean;
}

/** Builds the operations server; the caller listens and closes. */
export function buildOperations({ pool, metrics, isStopping }: OperationsDeps): FastifyInstance {
  const app = fastify({ forceCloseConnections: true });
  app.get('/healthz', async () => ({ status: 'ok', version: RELEASE }));
  app.get('/readyz', async (_request, reply) => {
    const { code, body } = readinessOf({
      process: isStopping() ? 'stopping' : null,
      ...(await checkDatabase(pool)),
    });
    return reply.code(code).send(body);
  });
  app.get('/metrics', async (_request, reply) =>
    reply.type(metrics.registry.contentType).send(await metrics.registry.metrics()),
  );
  return app;
}
