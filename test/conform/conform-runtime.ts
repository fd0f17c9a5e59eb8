/**
 * `npm run conform:runtime -- [options] -- <command>`: `bulkhead conform-runtime` with a service of its own, whose clock it sets,
 * so that the scenarios in which time passes are played, too.
 */
import { abortOnSignals } from '../../conform/interruption.ts';
import { checkRuntime } from '../../conform/runtime/check-runtime.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { localTools } from '../../pack/local-tools.ts';
import { runCommandLine } from '../../sdk/cli/command-line.ts';
import sdk from '../../sdk/package.json' with { type: 'json' };
import { startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { SERVER_VARIABLE, startTestServer } from '../runner/server.ts';
import { openSessionClock } from './session-clock.ts';
import { NO_RATE_LIMITS } from './shared-service.ts';

const endings: (() => unknown)[] = [];
const cleanup = { teardown: (end: () => unknown) => void endings.push(end) };
const interrupted = abortOnSignals();

try {
  if (process.env[SERVER_VARIABLE] === undefined) {
    const server = await startTestServer();
    endings.push(() => server.stop());
    process.env[SERVER_VARIABLE] = server.url;
  }
  const service = await startServiceOnTestDatabase(cleanup, NO_RATE_LIMITS);
  const { DATABASE_URL = '' } = service.env as { DATABASE_URL?: string };
  const { pool, close } = openPool(DATABASE_URL, { name: 'conform-clock', connections: 1, onError: () => undefined });
  endings.push(close);
  const clock = openSessionClock(pool);
  process.exitCode = await runCommandLine(['conform-runtime', ...process.argv.slice(2)], {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    env: { ...process.env, BULKHEAD_URL: service.url, BULKHEAD_TOKEN: service.token },
    folder: process.cwd(),
    localTools: { ...localTools, conformRuntime: (check) => checkRuntime({ ...check, clock }) },
    signal: interrupted,
    version: sdk.version,
  });
} finally {
  for (const end of endings.reverse()) await end();
}
