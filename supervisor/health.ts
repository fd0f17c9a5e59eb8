/** The operators' own port of the supervisor: is it alive, can it serve, which walls stand, what does it count. */
import fastify, { type FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import type { Listener } from '../db/listener.ts';
import { databaseTrouble } from '../db/readiness.ts';
import type { Metrics } from './metrics.ts';
import type { Sandbox } from './sandbox.ts';

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
  return listener.connected() ? databaseTrouble(pool) : 'the listening connection to the database is away';
}
