/** The operators' port of the supervisor, which also reports the sandbox and checks that a jail can be built. */
import type { FastifyInstance } from 'fastify';
import type { Listener } from '../../db/postgres/listener.ts';
import { buildOperations, type OperationsDeps } from '../../service/lifecycle/operations.ts';
import { type Sandbox, tryOut } from '../jail/sandbox.ts';

/** How long a result of the jail check is reused. Milliseconds. */
const PROVEN_MS = 30_000;
const FAILED_MS = 2_000;

interface HealthDeps extends Pick<OperationsDeps, 'pool' | 'metrics' | 'isStopping'> {
  readonly listener: Pick<Listener, 'isConnected'>;
  readonly sandbox: Pick<Sandbox, 'state' | 'missing' | 'limiter' | 'runAs' | 'jail'>;
}

/** Builds the server; the caller listens and closes. */
export function buildHealth({ pool, listener, metrics, sandbox, isStopping }: HealthDeps): FastifyInstance {
  const { state, missing, limiter, runAs } = sandbox;
  const checkJail = createJailCheck(() => tryOut(sandbox.jail));
  return buildOperations({
    pool,
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

/** Builds a jail with a child in it, as for a plugin, and ends it. At most one at a time; results are reused for a while. */
function createJailCheck(build: () => Promise<string | null>): () => Promise<string | null> {
  let last: { reuseUntil: number; result: Promise<string | null> } | null = null;
  return () => {
    if (last !== null && performance.now() < last.reuseUntil) return last.result;
    const check = { reuseUntil: Number.POSITIVE_INFINITY, result: build().then(judge) };
    function judge(fault: string | null): string | null {
      check.reuseUntil = performance.now() + (fault === null ? PROVEN_MS : FAILED_MS);
      return fault === null ? null : 'no jail can be built now: no plugin process starts';
    }
    last = check;
    return check.result;
  };
}
