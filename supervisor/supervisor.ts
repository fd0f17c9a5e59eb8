/** Composes a supervisor: fleet, session API, queue workers. `main.ts` and tests start it. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import type { MediaQuota } from '../db/accounts/media.ts';
import { setWorkspaceBytes } from '../db/accounts/usage.ts';
import type { Blobs } from '../db/files/blobs.ts';
import type { SecretKeys } from '../db/files/secrets.ts';
import { releaseHeldEvents } from '../db/installations/events.ts';
import { waitForUpdate } from '../db/installations/updates.ts';
import { type Queues, startQueues } from '../db/jobs/queues.ts';
import { type Listener, openListener } from '../db/postgres/listener.ts';
import {
  parseDeliveryNotice,
  subscribeToDeliveries,
  subscribeToHandshakeRequests,
  subscribeToInstallations,
  subscribeToRestarts,
  subscribeToSessions,
  subscribeToSpools,
} from '../db/postgres/notifications.ts';
import type { SessionSource } from '../db/postgres/pool.ts';
import { asAccount } from '../db/postgres/shares.ts';
import { KeyedLocks } from '../db/timing/keyed-locks.ts';
import { withConsoleSessions } from '../service/identity/console-sessions.ts';
import { SignIn } from '../service/identity/sign-in.ts';
import type { ServiceVerifier } from '../service/identity/tokens.ts';
import { tuneGc } from '../service/lifecycle/garbage-collection.ts';
import { RELEASE } from '../service/settings/release.ts';
import { openRetryingWriter, type RetryingWriter } from '../service/timing/retrying-writer.ts';
import { within } from '../service/timing/within.ts';
import { runHook } from './calls/hook-runner.ts';
import { createHostCallRouter } from './calls/host-call-router.ts';
import { Invocations } from './calls/invocations.ts';
import type { PluginPort } from './calls/plugin-port.ts';
import { callSurface } from './calls/surface-call.ts';
import { AccountPluginsCache } from './children/account-plugins-cache.ts';
import { type Child, type ChildBounds, type ChildHandlers, startChild } from './children/child.ts';
import { Fleet, type FleetOptions } from './children/fleet.ts';
import { STOP_GRACE_MS } from './children/fleet-bounds.ts';
import { Inspections } from './children/inspector/inspections.ts';
import { limitForwards } from './cluster/account-router.ts';
import { OwnedJobs } from './cluster/owned-jobs.ts';
import { Ownership } from './cluster/ownership.ts';
import { PeerRequests } from './cluster/peer-requests.ts';
import { PeerServer } from './cluster/peer-server.ts';
import { type Jobs, startJobs } from './delivery/workers.ts';
import type { HttpOptions } from './host/http/http.ts';
import type { Resolution } from './host/http/resolution.ts';
import type { ModelProvider } from './host/llm/configuration.ts';
import { openLlm } from './host/llm/llm.ts';
import { AccountHosts } from './host/ssh/account-hosts.ts';
import { type ConnectionBounds, SshConnections } from './host/ssh/connections.ts';
import { SshGuards } from './host/ssh/guards.ts';
import { openSshHosts, type SshTarget } from './host/ssh/hosts.ts';
import { sshCalls } from './host/ssh/ssh.ts';
import { type WorkspaceQuota, Workspaces } from './host/workspace/workspaces.ts';
import { RecurrenceClock } from './host-tools/recurrence-clock.ts';
import type { Jail } from './jail/jail.ts';
import { findRefusal, type Sandbox } from './jail/sandbox.ts';
import { AuditSink } from './records/audit-sink.ts';
import { CancelNotices } from './records/cancel-notices.ts';
import { HookCounts } from './records/hook-counts.ts';
import { type LogCaps, LogSink } from './records/log-sink.ts';
import { createMetrics, type Gauges, type Metrics } from './records/metrics.ts';
import { Rollups } from './records/rollups.ts';
import { SecretMasks } from './records/secret-mask.ts';
import { Stacks } from './records/stacks.ts';
import { RunningCalls } from './sessions/running-calls.ts';
import { buildSessionApi, type SessionApiOptions } from './sessions/session-api.ts';
import { SessionCache } from './sessions/session-cache.ts';
import type { SessionServices } from './sessions/session-services.ts';
import { openSessionStreams } from './sessions/session-streams.ts';
import { UntouchedTurns } from './sessions/untouched-turns.ts';

/** How long an author waits for a saved draft: longer than the budgets of a load and of its health check. Milliseconds. */
const UPDATE_WAIT_MS = 20_000;
/** Time for running calls and jobs to end at a stop. Milliseconds. */
const DRAIN_MS = 10_000;
/**
 * Limits of what follows, so that a stop ends although PostgreSQL or a child does not answer: a fetch of jobs, the end of
 * all children, the answers to calls that ended with them, and the writes. Milliseconds.
 */
const FETCH_MS = 1_000;
const FLEET_CLOSE_MS = 8_000;
const LAST_ANSWERS_MS = 500;
const LAST_WRITES_MS = 5_000;

export interface SupervisorOptions
  extends Pick<FleetOptions, 'pool' | 'childrenMax' | 'spares' | 'idleStopMs' | 'loadWithinMs' | 'healthWithinMs'> {
  /** For the connection that listens; default: the pool. */
  readonly session?: SessionSource;
  readonly blobs: Blobs;
  /** Default: always. */
  isBlobStoreAvailable?(): boolean;
  /** `DATA_DIR`, which contains the workspaces. */
  readonly dataDir: string;
  readonly keys: SecretKeys;
  readonly verifier: ServiceVerifier;
  readonly sandbox: Sandbox;
  readonly logger: FastifyBaseLogger;
  /** Called with the errors of background tasks. Default: logs each. */
  onError?(error: Error): void;
  readonly logCaps: LogCaps;
  /** The hosts of `host.ssh`. */
  readonly sshTargets: readonly SshTarget[];
  readonly sshBounds?: ConnectionBounds;
  readonly hostCallsPerMinute: number;
  readonly storageBytes: number;
  readonly deliveryDays: number;
  /** Delays after failed attempts at a delivery, seconds. */
  readonly deliveryWaits: readonly number[];
  /** Retention of rollups. */
  readonly metricsDays: number;
  readonly metricSlugs: number;
  /** Interval of writing rollups. Milliseconds. */
  readonly rollupsMs?: number;
  /** Interval of looking for reminders that are due. Milliseconds. */
  readonly reminderScanMs?: number;
  /** The times of reminders that repeat. The supervisor closes it. Default: a new one. */
  readonly recurrences?: RecurrenceClock;
  readonly http?: HttpOptions;
  /** Resolves the addresses of the SSH hosts that accounts add. */
  readonly ssh?: Partial<Resolution>;
  readonly workspaceQuota: WorkspaceQuota;
  readonly mediaQuota: MediaQuota;
  readonly toolResultBytes: number;
  /** The model endpoints plugins may ask. */
  readonly models: readonly ModelProvider[];
  /** Maximum tokens of these models per account, plugin and day; 0: no limit. */
  readonly modelTokensPerDay: number;
  /** Limits of a child's output and of concurrent calls. */
  readonly childBounds: ChildBounds;
  /** The clock of restarts, and of the time in which an attempt at a delivery stores messages. */
  readonly now?: () => number;
  /** Called at each step of a delivery. A test may stop the step there. */
  readonly faultPoint?: (step: string) => Promise<void> | undefined;
  /** Whether authors may debug their drafts. */
  readonly inspect: boolean;
  /** Where other supervisors reach this one. */
  readonly peer: { readonly host: string; readonly port: number };
  /** Whether the supervisor takes over accounts at its start, and not only at `join`. Default: true. */
  readonly joins?: boolean;
  readonly sessionApi?: SessionApiOptions;
}
export interface Supervisor {
  /** The session API; the caller listens. */
  readonly app: FastifyInstance;
  readonly fleet: Fleet;
  readonly pluginsCache: AccountPluginsCache;
  readonly queues: Queues;
  readonly listener: Listener;
  readonly logs: LogSink;
  readonly audit: AuditSink;
  readonly rollups: Rollups;
  readonly metrics: Metrics;
  readonly ssh: SshConnections;
  readonly ownership: Ownership;
  /** Takes accounts on. Call it once, when the process is about to serve. */
  join(): Promise<void>;
  /**
   * Drains: accepts no new work, waits for running calls, stops the children, and writes everything that waits.
   *
   * @param drained resolves when running requests have had their time. Default: after `DRAIN_MS`
   */
  stop(drained?: Promise<void>): Promise<void>;
}

/** Starts everything except the servers. */
export async function startSupervisor(options: SupervisorOptions): Promise<Supervisor> {
  tuneGc();
  const { pool, blobs, sandbox, logger } = options;
  const onError =
    options.onError ?? ((err: Error) => logger.error({ err }, 'a background task failed and will be retried'));
  const listener = await openListener(pool, onError, options.session);
  const faultPoint = options.faultPoint ?? (() => undefined);
  const queues = await startQueues({ pool, listener, role: 'worker', onError, faultPoint });
  const hookCounts = new HookCounts(pool, onError);
  const writes = openRetryingWriter(onError);
  const cancelNotices = new CancelNotices({ pool, onError });
  let jobs: Jobs | null = null;
  const ownership = new Ownership({
    pool,
    listener,
    capacity: options.childrenMax,
    release: RELEASE,
    stopChildren: (isMoved, graceMs) => fleet.stopAccounts(isMoved, graceMs),
    onClaimed: () => jobs?.heal(),
    onError,
  });
  const { fleet, pluginsCache, logs, audit, rollups, metrics, stacks, llm, ssh, sshHosts } = assembleFleet(options, {
    ownership,
    listener,
    queues,
    hookCounts,
    cancelNotices,
    writes,
    faultPoint,
    onRecovered: (plugin) => asAccount(plugin.accountId, () => jobs?.releaseDeliveries(plugin)),
    onError,
  });
  await ownership.follow();
  const peers = new PeerRequests({ onError });
  const ownedJobs = new OwnedJobs({ pool, queues, ownership, peers });
  const server = new PeerServer({
    ...options.peer,
    key: ownership.peerKey,
    jobs: ownedJobs,
    wakeChannels: (texts) => {
      const notices = texts.map(parseDeliveryNotice);
      for (const notice of notices) jobs?.wakeChannel(notice);
      return jobs !== null && notices.every(({ accountId }) => ownership.holds(accountId));
    },
    catchUp: () => listener.catchUp(),
    answer: (request, response) => app.routing(request, response),
    upgrade: (request, socket, head) => app.server.emit('upgrade', request, socket, head),
    onError,
  });
  const sessions = new SessionCache(pool, () => listener.isConnected());
  const signIn = new SignIn(pool, withConsoleSessions(pool, options.verifier));
  await signIn.follow(listener);
  const drainOver = new AbortController();
  const services: SessionServices = {
    pool,
    queues,
    blobs,
    mediaQuota: options.mediaQuota,
    pluginsCache,
    hookCounts,
    cancelNotices,
    logs,
    metrics,
    sessions,
    faultPoint,
    turnLocks: new KeyedLocks(),
    untouchedTurns: new UntouchedTurns(),
    runningCalls: new RunningCalls(),
    drainOver: drainOver.signal,
    writes,
    invoker: fleet,
    signIn,
    router: { ownership, peers, server, forwards: limitForwards() },
    streams: openSessionStreams(listener, {}, pluginsCache),
    wake: (plugin) => fleet.wake(plugin),
    finishUpdate: (installationId) => waitForUpdate({ pool, listener }, installationId, UPDATE_WAIT_MS),
    ssh: { hosts: sshHosts, connections: ssh },
    recurrences: options.recurrences ?? new RecurrenceClock(),
    inspections: new Inspections({
      supervisorId: ownership.id,
      pool,
      fleet,
      logs,
      audit,
      off: whyNotInspected(options),
    }),
    toolResultBytes: options.toolResultBytes,
  };
  const app = await buildSessionApi(services, logger, options.sessionApi);
  await app.ready();
  const address = await server.listen();
  jobs = await startJobs({
    ...services,
    services,
    ownership,
    ownedJobs,
    fleet,
    onError,
    sandbox,
    deliveryDays: options.deliveryDays,
    deliveryWaits: options.deliveryWaits,
    now: readClock(options),
    metricsDays: options.metricsDays,
    reminderScanMs: options.reminderScanMs,
  });
  await subscribeToChanges({ listener, pluginsCache, fleet, ownership, ssh, sessions, pool, queues, onError, jobs });
  const join = () => ownership.join(address);
  if (options.joins !== false) await join();
  const writeRest = async () => {
    // At once, so that none uses up the time of the others.
    await Promise.all([logs.close(), audit.flush(), rollups.close(), hookCounts.close(), cancelNotices.close()]);
    await Promise.all([stacks.close(), listener.close()]);
  };
  const stop = async (drained?: Promise<void>) => {
    const closed = app.close();
    const jobsEnded = Promise.all([jobs?.stop(DRAIN_MS), queues.stop(DRAIN_MS)]);
    const over = Promise.all([drained, sleep(DRAIN_MS, undefined, { ref: false })]);
    over.then(writes.stop, writes.stop);
    const requestsOver = drained ?? within(closed, DRAIN_MS);
    const endRequests = (): void => drainOver.abort();
    requestsOver.then(endRequests, endRequests);
    // Calls that others have forwarded here end before the connections to them. All calls end before this supervisor stops to
    // learn who owns what: they may have to be led on.
    const forwardedOver = ownership.leave(over).then(() => server.close(DRAIN_MS));
    const left = Promise.all([requestsOver, forwardedOver]).then(() => ownership.close());
    await Promise.all([left, within(jobsEnded, DRAIN_MS + FETCH_MS)]);
    // Calls that still wait for a plugin end with its child.
    await within(fleet.close(STOP_GRACE_MS), FLEET_CLOSE_MS);
    await llm.close();
    ssh.close();
    await Promise.all([sshHosts.ofAccounts.privateKeys.close(), services.recurrences.close()]);
    peers.close();
    await within(closed, LAST_ANSWERS_MS);
    app.server.closeAllConnections();
    await within(closed, LAST_ANSWERS_MS);
    await within(writeRest(), LAST_WRITES_MS);
  };
  return { app, fleet, pluginsCache, queues, listener, logs, audit, rollups, metrics, ssh, ownership, join, stop };
}

interface Assembly extends Pick<Supervisor, 'ownership' | 'listener' | 'queues'>, Pick<FleetOptions, 'onRecovered'> {
  readonly hookCounts: HookCounts;
  readonly cancelNotices: CancelNotices;
  faultPoint(step: string): Promise<void> | undefined;
  readonly writes: RetryingWriter;
  onError(error: Error): void;
}

/** Creates the fleet and the sinks it writes to. The fleet and the plugins cache refer to each other: the fleet starts the plugins that the cache has read. */
function assembleFleet(
  options: SupervisorOptions,
  { ownership, listener, queues, hookCounts, cancelNotices, writes, faultPoint, onRecovered, onError }: Assembly,
) {
  const { pool, blobs, keys, sandbox } = options;
  const rollups = new Rollups(pool, { onError, ...(options.rollupsMs ? { flushMs: options.rollupsMs } : {}) });
  const gauges: Gauges = {
    dataDir: options.dataDir,
    children: () => fleet.countByState(),
    load: () => fleet.measureLoad(),
    memory: () => fleet.measureMemory(),
    recentExits: () => fleet.countRecentExits(),
    sandbox: () => sandbox,
    logQueue: () => logs.waiting,
    auditQueue: () => audit.waiting,
    isBlobStoreAvailable: options.isBlobStoreAvailable ?? (() => true),
  };
  const metrics = createMetrics({ pool, gauges, rollups, slugs: options.metricSlugs });
  const { logLines: onLines, lineTaken: onLine } = metrics;
  const stacks = new Stacks(blobs);
  const masks = new SecretMasks();
  const logs = new LogSink(pool, { caps: options.logCaps, masks, onError, onLines, onLine, stacks });
  const audit = new AuditSink(pool, masks, { onError, onEntries: metrics.auditEntries });
  const invocations = new Invocations();
  const otherPlugins: PluginPort = {
    loadPlugins: (accountId) => pluginsCache.get(accountId),
    runHook: (request) =>
      runHook({ pool, logs, metrics, hookCounts, cancelNotices, invoker: fleet, pluginsCache }, request),
    callSurface: (request) => callSurface({ logs, metrics, invoker: fleet, pluginsCache }, request),
  };
  const shared = {
    pool,
    blobs,
    queues,
    masks,
    audit,
    logs,
    metrics,
    invocations,
    otherPlugins,
    cancelNotices,
    onError,
  };
  const llm = openLlm({ ...shared, models: options.models, tokensPerDay: options.modelTokensPerDay });
  const ssh = new SshConnections(options.sshBounds);
  const sshHosts = openSshHosts(pool, options.sshTargets, new AccountHosts(pool, keys, options.ssh));
  const guards = new SshGuards({ invocations, otherPlugins });
  const workspaces = openWorkspaces(options, onError);
  const hostCallRouter = createHostCallRouter({
    ...shared,
    owned: ownership,
    keys,
    llm,
    workspaces,
    ssh: sshCalls({ hosts: sshHosts, connections: ssh, guards, logs }),
    mediaQuota: options.mediaQuota,
    callsPerMinute: options.hostCallsPerMinute,
    storageBytes: options.storageBytes,
    http: options.http,
    faultPoint,
  });
  const fleet: Fleet = new Fleet({
    ...shared,
    hostCallRouter,
    ownership,
    writes,
    start: starter(sandbox.jail, options),
    outputBytesPerSecond: options.childBounds.outputBytesPerSecond,
    childrenMax: options.childrenMax,
    spares: options.spares,
    firstSpare: sandbox.spare,
    idleStopMs: options.idleStopMs,
    loadWithinMs: options.loadWithinMs,
    healthWithinMs: options.healthWithinMs,
    now: readClock(options),
    startInspectable: sandbox.inspectable ? starter(sandbox.inspectable, options) : undefined,
    findRefusal: (isOperators) => findRefusal(sandbox, isOperators),
    onServing: (accountId) => pluginsCache.drop(accountId),
    onRecovered,
  });
  const pluginsCache = new AccountPluginsCache(pool, {
    onLoaded: (accountId, plugins, readAt) => fleet.sync(accountId, plugins, readAt),
    isNotified: () => listener.isConnected(),
  });
  return { fleet, pluginsCache, logs, audit, rollups, metrics, stacks, llm, ssh, sshHosts };
}

const readClock = ({ now }: SupervisorOptions): (() => number) => now ?? (() => performance.now());

const starter =
  (jail: Jail, { childBounds }: SupervisorOptions) =>
  (handlers: ChildHandlers): Child =>
    startChild(jail, handlers, childBounds);

function whyNotInspected({ inspect, sandbox }: SupervisorOptions): string | null {
  if (!inspect) return 'The inspector is off. The operator of this service can enable it with INSPECT=on.';
  return sandbox.inspectable ? null : `The inspector needs the whole sandbox. ${sandbox.missing ?? ''}`.trim();
}

function openWorkspaces(options: SupervisorOptions, onError: (error: Error) => void): Workspaces {
  const record = (accountId: string, bytes: number) => setWorkspaceBytes(options.pool, accountId, bytes).catch(onError);
  const workspaces = new Workspaces(options.dataDir, options.workspaceQuota, record);
  workspaces.sweep().catch(onError);
  return workspaces;
}

interface Followers extends Pick<Supervisor, 'listener' | 'pluginsCache' | 'fleet' | 'ownership' | 'ssh' | 'queues'> {
  readonly pool: Pool;
  readonly sessions: SessionCache;
  readonly jobs: Jobs;
  onError(error: Error): void;
}

/** Updates the plugin cache and the children when rows change. */
async function subscribeToChanges(followers: Followers): Promise<void> {
  const { listener, pluginsCache, fleet, ownership, ssh, sessions, pool, queues, jobs, onError } = followers;
  const onChange = ({ accountId, installationId }: { accountId: string; installationId: string }) => {
    pluginsCache.drop(accountId);
    ssh.drop(installationId);
    asAccount(accountId, () => {
      // Load the change even without a call, so that running children get it.
      if (fleet.listAccounts().has(accountId)) pluginsCache.get(accountId).catch(onError);
      if (!ownership.holds(accountId)) return;
      releaseHeldEvents(pool, queues, installationId).catch(onError);
      jobs.releaseDeliveries({ accountId, installationId });
    });
  };
  const onEverything = () => {
    pluginsCache.dropAll();
    ssh.dropAll();
    for (const accountId of fleet.listAccounts()) pluginsCache.get(accountId).catch(onError);
    // PostgreSQL was unavailable, so work may be interrupted: recover it now instead of at the next interval.
    jobs.heal();
  };
  await subscribeToInstallations(listener, onChange, onEverything);
  await subscribeToRestarts(listener, (installationId) => void fleet.restart(installationId).catch(onError));
  await subscribeToDeliveries(listener, jobs.wakeChannel);
  await subscribeToSpools(listener, jobs.wakeAllChannels);
  await subscribeToHandshakeRequests(listener, jobs.handshake);
  // Another supervisor may clear or delete a session that this one has cached.
  await subscribeToSessions(
    listener,
    (id) => sessions.drop(id),
    () => sessions.dropAll(),
  );
}
