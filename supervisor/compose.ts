/** Starts the supervisor process from its settings and serves until it is stopped. `main.ts` and the fault-point tests call it. */
import { join } from 'node:path';
import type { Pool } from 'pg';
import { recordMember } from '../db/cluster/cluster-record.ts';
import { announceProcess } from '../db/cluster/running-processes.ts';
import { readCluster } from '../db/cluster/supervisors.ts';
import type { KeyStore } from '../db/files/key-files.ts';
import { openSecretKeys } from '../db/files/secrets.ts';
import { hasForeignInstallations } from '../db/installations/installations.ts';
import { buildChild, buildInspectedChild, endBuilds } from '../sandbox-child/build-child.ts';
import { SECOND } from '../sdk/contract/limits.ts';
import { openVerifier } from '../service/identity/tokens.ts';
import { ConnectionDrain, stopAccepting } from '../service/lifecycle/drain.ts';
import { openProcess } from '../service/lifecycle/open-process.ts';
import { readReadiness } from '../service/lifecycle/operations.ts';
import { announceReady, stopWithParent, waitForTurn } from '../service/lifecycle/parent.ts';
import { listenOn, nameAddress } from '../service/lifecycle/start-faults.ts';
import { publicUrl, SettingsError, supervisorUrl } from '../service/settings/settings.ts';
import { within } from '../service/timing/within.ts';
import type { ChildBounds } from './children/child.ts';
import { availableMemory, countFittingChildren, defaultAccountMegabytes } from './children/fleet-bounds.ts';
import { describeLoopbackPeers } from './cluster/loopback-peers.ts';
import { describeConflictingLimits, type SupervisorConfig } from './config.ts';
import { readModels } from './host/llm/configuration.ts';
import { readSshTargets } from './host/ssh/hosts.ts';
import { cacheProgram } from './jail/cached-program.ts';
import { openSandbox, type Sandbox } from './jail/sandbox.ts';
import { buildHealth } from './records/operations.ts';
import { startSupervisor } from './supervisor.ts';

/** Time to close connections that nothing waits for any more. Milliseconds. */
const CLOSE_MS = 2_000;

/**
 * Starts all parts and announces readiness to the parent process.
 *
 * @param env contains the keys of model endpoints
 * @param faultPoint called at each step of deliveries and events; a test may stop the step there
 * @throws SettingsError, or the error of a part that cannot start
 */
export async function serveSupervisor(
  config: SupervisorConfig,
  env: Readonly<Record<string, string | undefined>>,
  faultPoint: (step: string) => Promise<void> | undefined = () => undefined,
): Promise<void> {
  const models = await readModels(config.MODELS_FILE, env);
  const { logger, onError, database, member, isMarkRead, blobs, bucket, endTracing } = await openProcess(
    'supervisor',
    config,
    env,
  );
  for (const sentence of describeConflictingLimits(config, availableMemory())) logger.warn(sentence);
  await confirmSandboxOff(config, database.pool);
  const sandbox = await prepareSandbox(config);
  logger.info({ sandbox: sandbox.state, limiter: sandbox.limiter, runAs: sandbox.runAs }, 'the sandbox is ready');
  const sentence = sandbox.missing ?? sandbox.warning ?? null;
  if (sentence !== null) logger.warn({ state: sandbox.state }, sentence);
  const supervisor = await startSupervisor({
    pool: database.pool,
    session: database.session,
    sandbox,
    logger,
    onError,
    models,
    faultPoint,
    blobs,
    isBlobStoreAvailable: bucket.isAvailable,
    ...(await openFiles(config, member.keys)),
    modelTokensPerDay: config.MODEL_TOKENS_PER_DAY,
    childrenMax: config.CHILDREN || countFittingChildren(availableMemory()),
    idleStopMs: config.IDLE_STOP_SECONDS * SECOND,
    deliveryDays: config.DELIVERY_DAYS,
    deliveryWaits: config.DELIVERY_WAITS,
    http: { allowPrivate: new Set(config.HTTP_ALLOW_PRIVATE) },
    ssh: { allowPrivate: new Set(config.SSH_ALLOW_PRIVATE) },
    hostCallsPerMinute: config.HOST_CALLS_PER_MINUTE,
    storageBytes: config.STORAGE_BYTES,
    metricsDays: config.METRICS_DAYS,
    metricSlugs: config.METRICS_SLUGS,
    workspaceQuota: { bytes: config.WORKSPACE_BYTES, files: config.WORKSPACE_FILES },
    mediaQuota: { bytes: config.MEDIA_BYTES, files: config.MEDIA_FILES },
    toolResultBytes: config.TOOL_RESULT_BYTES,
    childBounds: childBounds(config),
    peer: { host: config.PEER_HOST, port: config.PEER_PORT },
    joins: false,
    sessionApi: {
      url: supervisorUrl(config),
      consoleUrl: publicUrl(config),
      cookieDomain: config.CONSOLE_COOKIE_DOMAIN,
      trustProxy: config.TRUST_PROXY,
      anonymousPerMinute: config.STRANGER_REQUESTS_PER_MINUTE,
      accountLimits: { reads: config.SESSION_READS_PER_MINUTE, writes: config.SESSION_CALLS_PER_MINUTE },
    },
    inspect: config.INSPECT === 'on',
    logCaps: {
      linesPerMinute: config.LOG_LINES_PER_MINUTE,
      messageBytes: config.LOG_MESSAGE_BYTES,
      dataBytes: config.LOG_DATA_BYTES,
    },
  });
  await announceProcess(supervisor.listener);
  await recordMember(database.pool, member, isMarkRead);
  let stopping = false;
  const { listener, metrics, app } = supervisor;
  const dataDir = { path: config.DATA_DIR, minFreeMegabytes: config.MIN_FREE_MEGABYTES };
  const health = buildHealth({
    pool: database.pool,
    dataDir,
    listener,
    metrics,
    sandbox,
    isStopping: () => stopping,
    // The child that proved the walls. Another one would delay the start, and could be late on a machine that is busy at boot.
    isJailProven: (sandbox.spare ?? null) !== null,
  });
  const drain = new ConnectionDrain(app.server);
  stopWithParent(async (alone) => {
    stopping = true;
    stopAccepting(health.server);
    await supervisor.stop(drain.drain(alone));
    bucket.close();
    await within(Promise.all([health.close(), database.close(), endTracing()]), CLOSE_MS);
  });
  const report = { admits: sandbox.admits, ...(sandbox.missing === null ? {} : { notice: sandbox.missing }) };
  await waitForTurn(() => readReadiness(health), report);
  await supervisor.join();
  const { peers } = await readCluster(database.pool);
  for (const sentence of describeLoopbackPeers(supervisor.ownership.id, peers)) logger.warn(sentence);
  await listenOn(app, 'service', nameAddress(config, 'HOST', 'SUPERVISOR_PORT'));
  await listenOn(health, 'operations', nameAddress(config, 'OPS_HOST', 'SUPERVISOR_OPS_PORT'));
  await announceReady(supervisorUrl(config), () => readReadiness(health), report);
}

async function openFiles(config: SupervisorConfig, keys: KeyStore) {
  return {
    dataDir: config.DATA_DIR,
    keys: await openSecretKeys(config.DATA_DIR, keys),
    verifier: await openVerifier(config, undefined, keys),
    sshTargets: await readSshTargets(config.SSH_HOSTS_FILE),
  };
}

function childBounds(config: SupervisorConfig): ChildBounds {
  return {
    frameBytes: config.FRAME_BYTES,
    framesPerSecond: config.FRAMES_PER_SECOND,
    outputBytesPerSecond: config.OUTPUT_BYTES_PER_SECOND,
    callsInFlight: config.CALLS_IN_FLIGHT,
    callsWaiting: config.CALLS_WAITING,
  };
}

/** @throws SettingsError when the sandbox is off by mistake, or when it would put other accounts' plugins at risk */
export async function confirmSandboxOff(config: SupervisorConfig, pool: Pool): Promise<void> {
  if (config.SANDBOX !== 'off') return;
  if (config.SANDBOX_OFF_CONFIRMED !== 'yes')
    throw new SettingsError(
      'SANDBOX=off runs plugins without the jail. To confirm it, also set SANDBOX_OFF_CONFIRMED=yes.',
    );
  if (await hasForeignInstallations(pool))
    throw new SettingsError(
      'SANDBOX=off is refused: plugins of other accounts are installed. Uninstall them, or use auto or require.',
    );
}

async function prepareSandbox(config: SupervisorConfig): Promise<Sandbox> {
  const program = await buildChild();
  const inspectedProgram = config.INSPECT === 'on' ? await buildInspectedChild() : null;
  await endBuilds();
  return openSandbox({
    mode: config.SANDBOX,
    directory: join(config.DATA_DIR, 'sandbox'),
    program,
    cachedProgram: await cacheProgram(program),
    inspectedProgram,
    heapMegabytes: config.HEAP_MEGABYTES,
    residentMegabytes: config.RESIDENT_MEGABYTES,
    accountMegabytes: config.ACCOUNT_MEGABYTES || defaultAccountMegabytes(availableMemory()),
    openFiles: config.OPEN_FILES,
    threads: config.THREADS,
    cpuWeight: config.CPU_WEIGHT,
    childBounds: childBounds(config),
    keepsChild: true,
  });
}
