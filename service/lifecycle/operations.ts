/** Builds the operations server of a process: `/healthz`, `/readyz` and `/metrics`. Operators only: do not expose it to the public. */
import type { FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import type { Registry } from 'prom-client';
import { KIB } from '../../sdk/contract/limits.ts';
import { createServer } from '../http/application.ts';
import { RELEASE } from '../settings/release.ts';
import {
  buildReadiness,
  type Checks,
  createDatabaseCheck,
  createDataDirCheck,
  type DataDirSpace,
} from './readiness.ts';

/** No request needs a body. */
const BODY_MAX_BYTES = KIB;

export interface OperationsDeps {
  readonly pool: Pool;
  readonly dataDir: DataDirSpace;
  readonly metrics: {
    readonly registry: Registry;
    /** Sets the metric of the checks, before each scrape. */
    readyChecked(checks: Checks): void;
  };
  /** Whether the process drains: it finishes running requests and must receive no new ones. */
  isStopping(): boolean;
  /** Fields that `/healthz` reports in addition to `status` and `version`. */
  readonly health?: object;
  /** Runs checks in addition to those of the database and DATA_DIR. */
  runChecks?(): Promise<Checks>;
}

/** Builds the server. The caller starts and closes it. */
export function buildOperations(deps: OperationsDeps): FastifyInstance {
  const { pool, metrics, health } = deps;
  const checkDatabase = createDatabaseCheck(pool);
  const checkDataDir = createDataDirCheck(deps.dataDir);
  const app = createServer({ bodyMaxBytes: BODY_MAX_BYTES, server: { forceCloseConnections: true } });
  app.get('/healthz', async () => ({ status: 'ok', version: RELEASE, ...health }));
  const runChecks = async (): Promise<Checks> => {
    // At once, so that a scrape is answered in time where several of them fail.
    const [own, dataDir, database] = await Promise.all([deps.runChecks?.(), checkDataDir(), checkDatabase()]);
    return { process: deps.isStopping() ? 'stopping' : null, ...own, dataDir, ...database };
  };
  app.get('/readyz', async (_request, reply) => {
    const { code, body } = buildReadiness(await runChecks());
    return reply.code(code).send(body);
  });
  app.get('/metrics', async (_request, reply) => {
    metrics.readyChecked(await runChecks());
    return reply.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  });
  return app;
}

/** Reads `/readyz` without a connection, because the port may still lead to the process that this one replaces. */
export async function readReadiness(operations: FastifyInstance): Promise<string | null> {
  const answer = await operations.inject('/readyz');
  return answer.statusCode === 200 ? null : (answer.json<{ reason?: string }>().reason ?? 'unknown');
}
