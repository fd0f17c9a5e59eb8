/**
 * Routes `host.*` calls to a closed table of handlers, with the same checks around each. The pipe identifies the caller;
 * the message names only the member, its arguments and an invocation, which must be running in that child.
 */
import { addAbortListener } from 'node:events';
import type { MediaQuota } from '../../db/accounts/media.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { readSecrets, type SecretKeys } from '../../db/files/secrets.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { isDatabaseUnavailable } from '../../db/postgres/database-errors.ts';
import type { WritingPool } from '../../db/postgres/pool.ts';
import { asAccount } from '../../db/postgres/shares.ts';
import type { AuditOutcome } from '../../db/records/audit.ts';
import { isGranted, listGrantedCalls } from '../../sdk/contract/capabilities.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { openedHttpAnswer } from '../../sdk/contract/payloads.ts';
import { type HostCallName, hostCalls } from '../../sdk/contract/protocol.ts';
import type { HostRow } from '../../sdk/contract/rows.ts';
import { traced } from '../../service/telemetry/tracing.ts';
import { LoopSlices } from '../../service/timing/loop-turns.ts';
import { perMinute, TokenBuckets } from '../../service/timing/token-bucket.ts';
import type { HostCall } from '../children/child.ts';
import { HostCallRefusal } from '../children/child-errors.ts';
import type { AgentMessageDeps } from '../host/agent-messages.ts';
import { agentCalls } from '../host/agents.ts';
import { assetCalls } from '../host/assets.ts';
import { admitSecrets, checkArguments, checkResult, Refusal } from '../host/call-checks.ts';
import { type HeldGrant, holdGrant } from '../host/held-grant.ts';
import { HostError, type HostHandlers, type HostScope } from '../host/host-call.ts';
import { answerBodyCall, isBodyCall, readOpening } from '../host/http/body-calls.ts';
import type { BodyStreams } from '../host/http/body-streams.ts';
import { type HttpOptions, openHttp } from '../host/http/http.ts';
import type { LiveInstallation } from '../host/live-installation.ts';
import type { Llm } from '../host/llm/llm.ts';
import { mediaCalls } from '../host/media.ts';
import { MessageChains } from '../host/message-chains.ts';
import { type ResultTurn, ResultTurns } from '../host/result-turns.ts';
import { Secrets } from '../host/secrets.ts';
import { sessionCalls } from '../host/session.ts';
import type { SshCalls } from '../host/ssh/ssh.ts';
import { storageCalls } from '../host/storage.ts';
import { workspaceCalls } from '../host/workspace/workspace.ts';
import type { Workspaces } from '../host/workspace/workspaces.ts';
import { type AuditSink, digestArguments } from '../records/audit-sink.ts';
import type { CancelNotices } from '../records/cancel-notices.ts';
import type { LogSink } from '../records/log-sink.ts';
import type { Metrics } from '../records/metrics.ts';
import type { SecretMasks } from '../records/secret-mask.ts';
import type { Invocation, Invocations } from './invocations.ts';

type HostCallTable = { readonly [Name in HostCallName]: HostHandlers[Name] };

interface HostCallRouterDeps extends AgentMessageDeps {
  readonly cancelNotices: CancelNotices;
  /** Gives the pool for writes for an account's plugins. It throws when another supervisor owns the account. */
  readonly owned: { pool(accountId: string): WritingPool };
  readonly keys: SecretKeys;
  readonly masks: SecretMasks;
  readonly audit: AuditSink;
  readonly logs: LogSink;
  readonly metrics: Metrics;
  readonly invocations: Invocations;
  readonly llm: Llm;
  readonly workspaces: Workspaces;
  readonly blobs: Blobs;
  readonly mediaQuota: MediaQuota;
  readonly ssh: SshCalls;
  readonly callsPerMinute: number;
  readonly storageBytes: number;
  readonly http?: HttpOptions | undefined;
  onError(error: Error): void;
}

export interface HostCallRouter {
  /** Names of the host calls that a child with these grants has. */
  listMembers(granted: readonly string[]): string[];
  /** Reads the secrets that an installation's version declares, so that they are masked in what its child says. Never rejects. */
  maskSecrets(plugin: InstalledPlugin): Promise<void>;
  /**
   * Handles one call of a child.
   *
   * @param installation holds the current grants: a revoked one ends running calls too
   * @param loaded the installation at the time its child was loaded
   * @throws HostCallRefusal with a message that the plugin may read
   */
  handleCall(
    installation: LiveInstallation,
    loaded: InstalledPlugin,
    request: HostCall,
    childGone: AbortSignal,
  ): Promise<unknown>;
}

function createTable(deps: HostCallRouterDeps): { readonly table: HostCallTable; readonly bodies: BodyStreams } {
  const secrets = new Secrets(deps.pool, deps.keys, deps.masks);
  const { bounds, ...exchange } = deps.http ?? {};
  const http = openHttp({ allowPrivate: new Set(), dnsServers: [], ...exchange }, secrets, bounds);
  const messageChains = new MessageChains();
  const table = {
    ...http.calls,
    ...secrets.calls,
    ...assetCalls(deps.pool, deps.blobs),
    ...sessionCalls({ ...deps, messageChains }),
    ...storageCalls(deps.pool, deps.storageBytes),
    ...deps.llm.calls,
    ...agentCalls({ ...deps, messageChains }),
    ...mediaCalls(deps.pool, deps.blobs, deps.mediaQuota),
    ...workspaceCalls(deps.workspaces),
    ...deps.ssh,
  } satisfies HostCallTable;
  return { table, bodies: http.bodies };
}

export function createHostCallRouter(deps: HostCallRouterDeps): HostCallRouter {
  const { table, bodies } = createTable(deps);
  const { callsPerMinute } = deps;
  const rateLimits = new TokenBuckets(perMinute(callsPerMinute));
  const resultTurns = new ResultTurns();
  return {
    listMembers: (granted) => listGrantedCalls(granted),
    maskSecrets: (plugin) => asAccount(plugin.accountId, () => maskSecrets(deps, plugin)).catch(deps.onError),
    handleCall: async (installation, loaded, received, childGone) => {
      if (isBodyCall(received)) {
        const read = (id: string) => bodies.read(childGone, id);
        return answerBodyCall({ read, close: (id) => bodies.close(childGone, id) }, received);
      }
      const { request, bodyId } = readOpening(received);
      const { plugin } = installation;
      const started = performance.now();
      const invocation = deps.invocations.find(request.invocationId, plugin.installationId);
      let argumentsSha256: string | null = null;
      const onAdmitted = (digest: string | null) => {
        argumentsSha256 = digest;
      };
      const finish = (outcome: AuditOutcome, detail: string | null) => {
        const durationMs = performance.now() - started;
        recordCall(deps, plugin, request, invocation, { outcome, detail, durationMs, argumentsSha256 });
      };
      try {
        const answer = await asAccount(plugin.accountId, () =>
          traceCall(request, invocation, () =>
            runCall(
              deps,
              { table, rateLimits, callsPerMinute, resultTurns },
              { installation, plugin, loaded, request, bodyId, invocation, childGone, onAdmitted },
            ),
          ),
        );
        finish('ok', null);
        return bodyId !== null && bodies.has(childGone, bodyId) ? { ...(answer as object), isOpen: true } : answer;
      } catch (error) {
        // The plugin knows no body of a refused call, so it would not end it.
        if (bodyId !== null) bodies.close(childGone, bodyId);
        const refusal = error instanceof Refusal ? error : toRefusal(request.member, error, deps.onError);
        if (refusal.outcome === 'denied') logDenial(deps, plugin, invocation, refusal.message);
        finish(refusal.outcome, refusal.detail);
        throw new HostCallRefusal(refusal.outcome, refusal.message);
      }
    },
  };
}

/** Adds the call to the trace of the handler that makes it. A call outside a handler starts its own trace. */
function traceCall(
  { member }: HostCall,
  invocation: Invocation | null,
  answer: () => Promise<unknown>,
): Promise<unknown> {
  // Text from a child must not become a span's attribute.
  const attributes = { member: Object.hasOwn(hostCalls, member) ? member : 'unknown' };
  return traced('host call', { parent: invocation?.trace ?? null, attributes }, answer);
}

/** Codes of Node and SQLSTATEs. */
const ERROR_CODE = /^[A-Z0-9_]{2,60}$/;

/** The account reads the detail in its audit, so of an internal error it holds the code only: the message may name paths and addresses. */
function toRefusal(member: string, error: unknown, onError: (error: Error) => void): Refusal {
  if (error instanceof HostError || error instanceof Problem)
    return new Refusal('failed', `host.${member}: ${error.message}`);
  onError(error as Error);
  const failed = `host.${member} failed`;
  const message = isDatabaseUnavailable(error) ? `${failed}: the database is unavailable. Try again shortly.` : failed;
  const { code } = error as { readonly code?: unknown };
  const isCode = typeof code === 'string' && ERROR_CODE.test(code);
  return new Refusal('failed', message, isCode ? `${failed}: ${code}` : failed);
}

interface Call {
  readonly installation: LiveInstallation;
  /** State of the installation when the call arrived. */
  readonly plugin: InstalledPlugin;
  /** The installation at the time its child was loaded. */
  readonly loaded: InstalledPlugin;
  readonly request: HostCall;
  readonly bodyId: string | null;
  readonly invocation: Invocation | null;
  readonly childGone: AbortSignal;
  /** Called before the handler runs, with the digest of the arguments for the audit log; null: the row needs none. */
  onAdmitted(argumentsSha256: string | null): void;
}

/** @throws Error when a key is missing; the plugin cannot read the secret either then */
async function maskSecrets({ pool, keys, masks }: HostCallRouterDeps, plugin: InstalledPlugin): Promise<void> {
  // The child can read only these.
  const names = plugin.secretNames.filter((name) => Object.hasOwn(plugin.secretUses, name));
  if (names.length === 0) return;
  const secrets = await readSecrets(pool, keys, plugin.installationId, names);
  const mask = masks.open(plugin.installationId);
  // All forms of the longest secret take a millisecond.
  const slices = new LoopSlices(plugin.accountId);
  for (const [name, value] of secrets) {
    await slices.pauseWhenOver();
    mask.add(name, value);
  }
}

interface Routes {
  readonly table: HostCallTable;
  readonly rateLimits: TokenBuckets;
  readonly callsPerMinute: number;
  readonly resultTurns: ResultTurns;
}

async function runCall(
  { masks, owned }: HostCallRouterDeps,
  { table, rateLimits, callsPerMinute, resultTurns }: Routes,
  call: Call,
): Promise<unknown> {
  const { plugin, request, invocation } = call;
  if (!Object.hasOwn(hostCalls, request.member)) throw new Refusal('denied', 'there is no such host call');
  const name = request.member as HostCallName;
  const row: HostRow = hostCalls[name];
  if (!isGranted(row, plugin.granted)) throw new Refusal('denied', `host.${name} is not granted`);
  const handler = table[name];
  const bucket = rateLimits.get(plugin.installationId);
  if (!bucket.consume()) {
    const limit = `rate limit exceeded: ${callsPerMinute} host calls a minute; try again in ${bucket.secondsUntil(1)} s`;
    throw new Refusal('denied', `host.${name}: ${limit}`);
  }
  const mask = masks.get(plugin.installationId);
  const args = admitSecrets(name, row, mask, checkArguments(name, row, request.args));
  // Now, in the turn of the event loop in which large arguments were decoded. A refused call must not cost this time.
  call.onAdmitted(row.audit === 'digest' ? digestArguments(request.args) : null);
  const endCall = invocation?.beginHostCall(row.budget);
  try {
    const writes = owned.pool(plugin.accountId);
    const grant = holdGrant(row, call.installation);
    const scope: Omit<HostScope, 'signal' | 'resultTurn'> = {
      plugin,
      loaded: call.loaded,
      installation: call.installation,
      child: call.childGone,
      bodyId: call.bodyId,
      session: invocation?.session ?? null,
      invocationId: invocation ? request.invocationId : null,
      isFromProvider: invocation?.kind === 'providers',
      writes,
      granted: grant.granted,
      needs: grant.needs,
    };
    // The only place that calls a handler without its row's types.
    const run = handler as (scope: HostScope, args: Record<string, unknown>) => Promise<unknown>;
    const work = {
      openTurn: (signal: AbortSignal) => resultTurns.open(plugin, signal),
      run: (signal: AbortSignal, resultTurn: ResultTurn) => run({ ...scope, signal, resultTurn }, args),
    };
    const result = await runUntilAborted(row, name, { ...call, grant }, work).finally(grant.release);
    return checkResult(name, call.bodyId === null ? row : { ...row, result: openedHttpAnswer }, result);
  } finally {
    endCall?.();
  }
}

interface Work {
  openTurn(signal: AbortSignal): ResultTurn;
  run(signal: AbortSignal, resultTurn: ResultTurn): Promise<unknown>;
}

async function runUntilAborted(
  row: HostRow,
  name: string,
  call: Call & { readonly grant: HeldGrant },
  work: Work,
): Promise<unknown> {
  const timeout = AbortSignal.timeout(row.timeoutMs);
  // Only calls of `host.session` end with their handler: other work may continue after the handler has answered.
  const over = row.capability === 'session' && call.invocation ? [call.invocation.over] : [];
  const signal = AbortSignal.any([timeout, call.childGone, call.grant.gone, ...over]);
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => {
    if (call.grant.gone.aborted) reject(new Refusal('denied', `host.${name} is not granted any more`));
    else if (timeout.aborted) reject(new Refusal('timeout', `host.${name} took longer than ${row.timeoutMs} ms`));
    else reject(new Refusal('cancelled', `host.${name} was called by a handler that has ended`));
  };
  if (signal.aborted) onAbort();
  using _listening = addAbortListener(signal, onAbort);
  const turn = work.openTurn(signal);
  const result = await Promise.race([work.run(signal, turn), aborted]);
  const waiting = turn.waitToSend(result);
  if (waiting) await Promise.race([waiting, aborted]);
  turn.charge(result);
  return result;
}

function recordCall(
  deps: HostCallRouterDeps,
  plugin: InstalledPlugin,
  request: HostCall,
  invocation: Invocation | null,
  end: { outcome: AuditOutcome; detail: string | null; durationMs: number; argumentsSha256: string | null },
): void {
  const row: HostRow | undefined = Object.hasOwn(hostCalls, request.member)
    ? hostCalls[request.member as HostCallName]
    : undefined;
  deps.metrics.hostCalled(row ? request.member : 'unknown', end.outcome, plugin, end.durationMs);
  // Rows without an audit level are audited only when they were denied.
  if (row?.audit === 'none' && end.outcome !== 'denied') return;
  deps.audit.write({
    accountId: plugin.accountId,
    installationId: plugin.installationId,
    sessionId: invocation?.session?.id ?? null,
    invocationId: invocation?.id ?? null,
    member: request.member,
    ...end,
  });
}

function logDenial(
  deps: HostCallRouterDeps,
  plugin: InstalledPlugin,
  invocation: Invocation | null,
  message: string,
): void {
  deps.logs.write(
    {
      plugin,
      sessionId: invocation?.session?.id ?? null,
      invocationId: invocation?.id ?? null,
      source: 'system',
    },
    { level: 'warn', message: `Denied: ${message}` },
  );
}
