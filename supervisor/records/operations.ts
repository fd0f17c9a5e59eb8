/** The operators' own port of the supervisor: is it alive, can it serve, which walls stand, what does it count. */
import fastify, { type FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import type { Listener } from '../../db/postgres/listener.ts';
import { checkDatabase, readinessOf } from '../../service/lifecycle/readiness.ts';
import { RELEASE } from '../../service/settings/release.ts';
import { type Sandbox, tryOut } from '../jail/sandbox.ts';
import type { Metrics } from './metrics.ts';

/** A jail that was built is believed in for this long, one that was not for that long. Milliseconds. */
const PROVEN_MS = 30_000;
const FAILED_MS = 2_000;

export interface HealthDeps {
  readonly pool: Pool;
  readonly listener: Pick<Listener, 'isConnected'>;
  readonly metrics: Pick<Metrics, 'registry'>;
  readonly sandbox: Pick<Sandbox, 'state' | 'missing' | 'limiter' | 'runAs' | 'jail'>;
  /** The process has been told to end: it serves what it has and wants nothing new. */
  isStopping(): boolean;
}

/** Builds the server; the caller listens and closes. */
export function buildHealth({ pool, listener, metrics, sandbox, isStopping }: HealthDeps): FastifyInstance {
  const { state, missing, limiter, runAs } = sandbox;
  const app = fastify({ forceCloseConnections: true });
  const jail = jailCheck(() => tryOut(sandbox.jail));
  app.get('/healthz', async () => ({ status: 'ok', version: RELEASE, sandbox: { state, missing, limiter, runAs } }));
  app.get('/readyz', async (_request, reply) => {
    const { code, body } = readinessOf({
      process: isStopping() ? 'stopping' : null,
      listener: listener.isConnected() ? null : 'the listening connection to the database is away',
      ...(await checkDatabase(pool)),
      // A process that ends builds none any more.
      jail: isStopping() ? null : await jail(),
    });
    return reply.code(code).send(body);
  });
  app.get('/metrics', async (_request, reply) =>
    reply.type(metrics.registry.contentType).send(await metrics.registry.metrics()),
  );
  return app;
}

/** Builds a jail with a child in it, as a plugin's would be, and ends it: at most one at a time, and not at every look. */
function jailCheck(build: () => Promise<string | null>): () => Promise<string | null> {
  let last: { until: number; result: Promise<string | null> } | null = null;
  return () => {
    if (last !== null && performance.now() < last.until) return last.result;
    const check = { until: Number.POSITIVE_INFINITY, result: build().then(judge) };
    function judge(words: string | null): string | null {
      check.until = performance.now() + (words === null ? PROVEN_MS : FAILED_MS);
      return words === null ? null : 'no jail can be built now: no plugin process starts';
    }
    last = check;
    return check.result;
  };
}
