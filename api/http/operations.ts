/** The operators' own port: is it alive, can it serve, what does it count. Not for the public. */
import fastify, { type FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import type { Metrics } from './metrics.ts';

/** A database that answers later than this cannot carry the service. Milliseconds. */
const READY_TIMEOUT_MS = 2_000;

export interface OperationsDeps {
  readonly pool: Pool;
  readonly metrics: Metrics;
  /** The process has been told to end: it serves what it has and wants nothing new. */
  isStopping(): boolean;
}

/** Builds the operations server; the caller listens and closes. */
export function buildOperations({ pool, metrics, isStopping }: OperationsDeps): FastifyInstance {
  const app = fastify({ forceCloseConnections: true });
  app.get('/healthz', async () => ({ status: 'ok' }));
  app.get('/readyz', async (_request, reply) => {
    const reason = isStopping() ? 'stopping' : await databaseTrouble(pool);
    return reason === null ? { status: 'ready' } : reply.code(503).send({ status: 'not ready', reason });
  });
  app.get('/metrics', async (_request, reply) =>
    reply.type(metrics.registry.contentType).send(await metrics.registry.metrics()),
  );
  return app;
}

async function databaseTrouble(pool: Pool): Promise<string | null> {
  const late = Promise.withResolvers<string>();
  const timer = setTimeout(() => late.resolve('the database does not answer in time'), READY_TIMEOUT_MS);
  try {
    return await Promise.race([pool.query('SELECT 1').then(() => null), late.promise]);
  } catch {
    return 'the database is away';
  } finally {
    clearTimeout(timer);
  }
}
