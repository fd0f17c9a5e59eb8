/**
 * Starts the API process from its settings and serves until it is stopped. Called by `main.ts` and the fault-point
 * tests.
 */

import type { Pool } from 'pg';
import { saveUsageLimits } from '../db/accounts/usage.ts';
import { startUsageUpkeep } from '../db/accounts/usage-upkeep.ts';
import { sweepDeletedPlugins } from '../db/catalog/plugins.ts';
import { recordMember } from '../db/cluster/cluster-record.ts';
import { announceProcess } from '../db/cluster/running-processes.ts';
import type { KeyStore } from '../db/files/key-files.ts';
import { openSecretKeys } from '../db/files/secrets.ts';
import { waitForUpdate } from '../db/installations/updates.ts';
import { requestIntrospection } from '../db/jobs/introspections.ts';
import { startQueues } from '../db/jobs/queues.ts';
import { openListener } from '../db/postgres/listener.ts';
import { SECOND } from '../sdk/contract/limits.ts';
import { openConsoleSessions, withConsoleSessions } from '../service/identity/console-sessions.ts';
import { SignIn } from '../service/identity/sign-in.ts';
import { openTokenExchange } from '../service/identity/token-exchange.ts';
import { openIssuer, openVerifier } from '../service/identity/tokens.ts';
import { ConnectionDrain, stopAccepting } from '../service/lifecycle/drain.ts';
import { openProcess } from '../service/lifecycle/open-process.ts';
import { buildOperations, readReadiness } from '../service/lifecycle/operations.ts';
import { announceReady, stopWithParent, waitForTurn } from '../service/lifecycle/parent.ts';
import { listenOn, nameAddress } from '../service/lifecycle/start-faults.ts';
import { publicUrl, supervisorUrl } from '../service/settings/settings.ts';
import { within } from '../service/timing/within.ts';
import { usageLimits } from './accounts/usage-limits.ts';
import { type AppDeps, buildApp } from './app.ts';
import { AccountOwners } from './cluster/account-owners.ts';
import type { ApiConfig } from './config.ts';
import { SETTLED_WITHIN_MS } from './ingress/intake.ts';
import { openWebhooks } from './ingress/webhooks.ts';
import { resumeRollouts } from './installations/version-rollout.ts';
import { startBundler } from './package/bundler.ts';
import { startBlobSweeper } from './plugins/blob-sweeper.ts';
import { watchIssuer } from './site/issuer-reach.ts';
import { createMetrics } from './telemetry/metrics.ts';

const HOUR_MS = 3_600_000;

/** Time for handlers to notice that their connection was cut off. Milliseconds. */
const CUT_OFF_MS = 1_000;
/** Time for the parts to close: webhooks may wait that long for other API processes first. Milliseconds. */
const CLOSE_MS = SETTLED_WITHIN_MS + SECOND;

/** How long a request that begins an update waits for its end: twice the time of an ordinary start on a busy machine. */
const UPDATE_WAIT_MS = 3_000;

/**
 * Starts all parts and announces readiness to the parent process.
 *
 * @param faultPoint called at each step of webhooks and events; a test may stop the step there
 * @throws SettingsError, or the error of a part that cannot start
 */
export async function serveApi(
  config: ApiConfig,
  faultPoint: (step: string) => Promise<void> | undefined = () => undefined,
): Promise<void> {
  const { logger, onError, database, member, isMarkRead, blobs, bucket, endTracing } = await openProcess(
    'api',
    config,
    process.env,
  );
  const { pool } = database;
  const listener = await openListener(pool, onError, database.session);
  const queues = await startQueues({ pool, role: 'producer', onError, faultPoint });
  await sweepDeletedPlugins(pool);
  const upkeep = startBlobSweeper({ pool, blobs, onError });
  await saveUsageLimits(pool, usageLimits(config));
  const stopUsageUpkeep = startUsageUpkeep(pool, onError);
  void upkeep.sweep().catch(onError);
  const stopRollouts = resumeRollouts({ pool, queues }, onError);
  const bundler = startBundler({ onError });
  const metrics = createMetrics({
    pool,
    dataDir: config.DATA_DIR,
    bundler: () => bundler.load(),
    intake: () => ingress.load(),
    keptFiles: () => ingress.countKept(),
    isBlobStoreAvailable: bucket.isAvailable,
  });
  let stopping = false;
  const dataDir = { path: config.DATA_DIR, minFreeMegabytes: config.MIN_FREE_MEGABYTES };
  const operations = buildOperations({ pool, dataDir, metrics, isStopping: () => stopping });
  const owners = await AccountOwners.open(pool, listener);
  const ingress = await openWebhooks({ pool, listener, owners, metrics, config, onError, faultPoint });
  const tokens = await openVerifier(config, undefined, member.keys);
  const signIn = new SignIn(pool, withConsoleSessions(pool, tokens));
  await signIn.follow(listener);
  const signInFacts = readSignInFacts(config);
  const consoleClient = signInFacts.oidc?.clientId ?? null;
  const lifetimeMs = config.CONSOLE_SESSION_HOURS * HOUR_MS;
  const app = await buildApp({
    webhooks: ingress.serve,
    services: {
      pool,
      listener,
      queues,
      blobs,
      onDeleted: () => upkeep.request(),
      keys: await openSecretKeys(config.DATA_DIR, member.keys),
      bundler,
      introspect: (request) => requestIntrospection({ pool, queues, listener }, request),
      finishUpdate: (installationId) => waitForUpdate({ pool, listener }, installationId, UPDATE_WAIT_MS),
      catchUp: (accountId) => owners.catchUp(accountId),
      webhookUrl: config.WEBHOOK_URL ?? publicUrl(config),
    },
    signIn,
    consoleSessions: openConsoleSessions({ pool, tokens, signIn, consoleClient, lifetimeMs }),
    ...(await openExchange(pool, config, member.keys)),
    cookieDomain: config.CONSOLE_COOKIE_DOMAIN,
    metrics,
    logger,
    faultPoint,
    trustProxy: config.TRUST_PROXY,
    limits: readLimits(config),
    publicUrl: publicUrl(config),
    signInFacts,
    ...(config.OIDC_ISSUER === undefined ? {} : { issuerOrigins: watchIssuer(config.OIDC_ISSUER, onError) }),
  });
  await announceProcess(listener);
  await recordMember(pool, member, isMarkRead);
  const drain = new ConnectionDrain(app.server);
  const closeParts = async () => {
    await ingress.close();
    await owners.close();
    stopUsageUpkeep();
    await stopRollouts();
    await Promise.all([bundler.close(), queues.stop(), listener.close(), operations.close(), upkeep.close()]);
    bucket.close();
    await Promise.all([database.close(), endTracing()]);
  };
  stopWithParent(async (alone) => {
    stopping = true;
    stopAccepting(operations.server);
    const drained = drain.drain(alone);
    const closed = app.close();
    await drained;
    drain.end();
    await within(closed, CUT_OFF_MS);
    // A database that does not answer holds up nothing: what matters is on disk by now.
    await within(closeParts(), CLOSE_MS);
  });
  await waitForTurn(() => readReadiness(operations));
  await listenOn(app, 'service', nameAddress(config, 'HOST', 'PORT'));
  await listenOn(operations, 'operations', nameAddress(config, 'OPS_HOST', 'API_OPS_PORT'));
  await announceReady(publicUrl(config), () => readReadiness(operations));
}

function readSignInFacts(config: ApiConfig): AppDeps['signInFacts'] & {} {
  const { OIDC_ISSUER: issuer, OIDC_AUDIENCE: audience, OIDC_CLIENT_ID } = config;
  const hasIssuer = issuer !== undefined && audience !== undefined;
  const oidc = hasIssuer ? { issuer, clientId: OIDC_CLIENT_ID ?? audience, audience } : null;
  return { sessionApiUrl: supervisorUrl(config), oidc };
}

function readLimits(config: ApiConfig): AppDeps['limits'] {
  return {
    reads: config.READS_PER_MINUTE,
    writes: config.WRITES_PER_MINUTE,
    anonymous: config.STRANGER_REQUESTS_PER_MINUTE,
    uploadsAtOnce: config.UPLOADS_AT_ONCE,
    minFreeMegabytes: config.MIN_FREE_MEGABYTES,
    pluginsPerAccount: config.PLUGINS_PER_ACCOUNT,
    installationsPerAccount: config.INSTALLATIONS_PER_ACCOUNT,
  };
}

/** Without an issuer of services there is no exchange, and its tokens need no signing key. */
async function openExchange(pool: Pool, config: ApiConfig, keys: KeyStore) {
  if (config.EXCHANGE_ISSUERS.length === 0) return {};
  const issuer = await openIssuer(config.DATA_DIR, keys);
  const audience = config.EXCHANGE_AUDIENCE ?? publicUrl(config);
  const exchangeIssuers = config.EXCHANGE_ISSUERS;
  return { exchange: openTokenExchange({ pool, issuer, issuers: exchangeIssuers, audience }), exchangeIssuers };
}
