/** The operators' port of the supervisor, which also reports the sandbox and checks that a jail can be built. */
import type { FastifyInstance } from 'fastify';
import type { Listener } from '../../db/postgres/listener.ts';
import { buildOperations, type OperationsDeps } from '../../service/lifecycle/operations.ts';
import { reuseResult } from '../../service/lifecycle/readiness.ts';
import { type Sandbox, tryOut } from '../jail/sandbox.ts';

/** How long a result of the jail check is reused. Milliseconds. */
const PROVEN_MS = 30_000;
const FAILED_MS = 2_000;
const NO_JAIL = 'no jail can be built now: no plugin process starts';

interface HealthDeps extends Pick<OperationsDeps, 'pool' | 'dataDir' | 'metrics' | 'isStopping'> {
  readonly listener: Pick<Listener, 'isConnected'>;
  readonly sandbox: Pick<Sandbox, 'state' | 'missing' | 'limiter' | 'runAs' | 'jail'>;
  /** Whether a child just started in the jail: then the first checks start none. Default: false. */
  readonly isJailProven?: boolean;
}

/** Builds the server; the caller listens and closes. */
export function buildHealth(deps: HealthDeps): FastifyInstance {
  const { pool, dataDir, listener, metrics, sandbox, isStopping, isJailProven: hasPassed = false } = deps;
  const { state, missing, limiter, runAs } = sandbox;
  const check = async () => ((await tryOut(sandbox.jail)) === null ? null : NO_JAIL);
  const checkJail = reuseResult(check, { passedMs: PROVEN_MS, failedMs: FAILED_MS, hasPassed });
  return buildOperations({
    pool,
    dataDir,
    metrics,
    isStopping,
    health: { sandbox: { state, missing, limiter, runAs } },
    runChecks: async () => ({
      listener: listener.isConnected() ? null : 'the listening connection to the database is lost',
      // A process that drains starts no children.
      jail: isStopping() ? null : await checkJail(),
    }),
  });
}
