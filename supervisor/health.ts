/** The operators' own port of the supervisor: is it alive, can it serve, which walls stand, what does it count. */
import fastify, { type FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import type { Listener } from '../db/listener.ts';
import type { Metrics } from './metrics.ts';
import type { Sandbox } from './sandbox.ts';

/** A database that answers later than this cannot carry the service. Milliseconds. */
const READY_TIMEOUT_MS = 2_000;

export interface HealthDeps {
  readonly pool: Pool;
  readonly listener: Listener;
  readonly metrics: Metrics;
  readonly sandbox: Pick<Sandbox, 'state' | 'missing' | 'limiter' | 'runAs'>;
  /** The process has been told to end: it serves what it has and wants nothing new. */
  isStopping(): boolean;
}

/** Builds the server; the caller listens and closes. */
export function buildHealth({ pool, listener, metrics, sandbox, isStopping }: HealthDeps): FastifyInstance {
  const { state, missing, limiter, runAs } = sandbox;
  const app = fastify({ forceCloseConnections: true });
  app.get('/healthz', async () => ({ status: 'ok', sandbox: { state, missing, limiter, runAs } }));
  app.get('/readyz', async (_request, reply) => {
    const reason = isStopping() ? 'stopping' : await trouble(pool, listener);
    return reason === null ? { status: 'ready' } : reply.code(503).send({ status: 'not ready', reason });
  });
  app.get('/metrics', async (_request, reply) =>
    reply.type(metrics.registry.contentType).send(await metrics.registry.metrics()),
  );
  return app;
}

async function trouble(pool: Pool, listener: Listener): Promise<string | null> {
  if (!listener.connected()) return 'the listening connection to the database is away';
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
