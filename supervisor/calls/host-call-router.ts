/**
 * The supervisor's side of `host.*`: a closed table of handlers, and around each the same checks. Who calls is known from
 * the pipe; the message names only the member, its arguments and an invocation, which must be running in that child.
 */
import type { Pool } from 'pg';
import type { MediaQuota } from '../../db/accounts/media.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import type { SecretKeys } from '../../db/files/secrets.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import type { AuditOutcome } from '../../db/records/audit.ts';
import { isGranted, listGrantedCalls } from '../../sdk/contract/capabilities.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { type HostCallName, hostCalls } from '../../sdk/contract/protocol.ts';
import type { HostRow } from '../../sdk/contract/rows.ts';
import { traced } from '../../service/telemetry/tracing.ts';
import { perMinute, TokenBuckets } from '../../service/timing/token-bucket.ts';
import { WireRefusal } from '../children/wire.ts';
import { agentCalls } from '../host/agents.ts';
import { checkArguments, checkResult, Refusal } from '../host/call-checks.ts';
import { type HeldGrant, holdGrant } from '../host/held-grant.ts';
import { HostError, type HostHandlers, type HostScope } from '../host/host-call.ts';
import type { Exchange } from '../host/http/exchange.ts';
import { httpCalls } from '../host/http/http.ts';
import type { LiveInstallation } from '../host/live-installation.ts';
import type { Llm } from '../host/llm/llm.ts';
import { mediaCalls } from '../host/media.ts';
import { secretCalls } from '../host/secrets.ts';
import { sessionCalls } from '../host/session.ts';
import type { SshCalls } from '../host/ssh/ssh.ts';
import { storageCalls } from '../host/storage.ts';
import { workspaceCalls } from '../host/workspace/workspace.ts';
import type { Workspaces } from '../host/workspace/workspaces.ts';
import type { AuditSink } from '../records/audit-sink.ts';
import type { LogSink } from '../records/log-sink.ts';
import type { Metrics } from '../records/metrics.ts';
import type { Invocation, Invocations } from './invocations.ts';
import type { PluginPort } from './plugin-port.ts';

type Table = { readonly [Name in HostCallName]: HostHandlers[Name] };

export interface HostCallRouterDeps {
  readonly pool: Pool;
  readonly keys: SecretKeys;
  readonly audit: AuditSink;
  readonly logs: LogSink;
  readonly metrics: Metrics;
  readonly invocations: Invocations;
  readonly llm: Llm;
  readonly workspaces: Workspaces;
  readonly blobs: Blobs;
  readonly mediaQuota: MediaQuota;
  readonly queues: Queues;
  readonly otherPlugins: PluginPort;
  readonly ssh: SshCalls;
  readonly callsPerMinute?: number;
  readonly storageBytes?: number;
  readonly http?: Partial<Exchange>;
}
export interface HostRequest {
  readonly member: string;
  readonly invocationId: string | null;
  readonly args: readonly unknown[];
}
export interface HostCallRouter {
  /** The members that a child with these grants is given. */
  members(granted: readonly string[]): string[];
  /**
   * Answers one call of the child that runs the plugin.
   *
   * @param installation the installation as it stands now, so that a grant that went is gone for running children and calls
   * @throws WireRefusal with what the plugin may read
   */
  call(installation: LiveInstallation, request: HostRequest, childGone: AbortSignal): Promise<unknown>;
}

function createTable(deps: HostCallRouterDeps): Table {
  return {
    ...httpCalls({ allowPrivate: new Set(), dnsServers: [], ...deps.http }),
    ...secretCalls(deps.pool, deps.keys),
    ...sessionCalls(deps.pool),
    ...storageCalls(deps.pool, deps.storageBytes ?? limits.storageBytes),
    ...deps.llm.calls,
    ...agentCalls(deps),
    ...mediaCalls(deps.pool, deps.blobs, deps.mediaQuota),
    ...workspaceCalls(deps.workspaces),
    ...deps.ssh,
  } satisfies Table;
}

/** Creates the router. A row without a handler does not compile. */
export function createHostCallRouter(deps: HostCallRouterDeps): HostCallRouter {
  const table = createTable(deps);
  const rateLimits = new TokenBuckets(perMinute(deps.callsPerMinute ?? limits.hostCallsPerMinute));
  return {
    members: (granted) => listGrantedCalls(granted),
    call: async (installation, request, childGone) => {
      const { plugin } = installation;
      const started = performance.now();
      const invocation = deps.invocations.find(request.invocationId, plugin.installationId);
      const note = (outcome: AuditOutcome, detail: string | null) =>
        record(deps, plugin, request, invocation, { outcome, detail, durationMs: performance.now() - started });
      try {
        const answer = await tracedCall(request, invocation, () =>
          answerCall(table, rateLimits, { installation, plugin, request, invocation, childGone }),
        );
        note('ok', null);
        return answer;
      } catch (error) {
        const refusal = error instanceof Refusal ? error : asRefusal(request.member, error);
        if (refusal.outcome === 'denied') logDenial(deps, plugin, invocation, refusal.message);
        note(refusal.outcome, refusal.detail);
        throw new WireRefusal(refusal.outcome, refusal.message);
      }
    },
  };
}

/** Below the call that makes it; work that no handler waits for has a trace of its own. */
function tracedCall(
  { member }: HostRequest,
  invocation: Invocation | null,
  answer: () => Promise<unknown>,
): Promise<unknown> {
  // What a child names must not name spans.
  const facts = { member: Object.hasOwn(hostCalls, member) ? member : 'unknown' };
  return traced('host call', { parent: invocation?.trace ?? null, facts }, answer);
}

const asRefusal = (member: string, error: unknown): Refusal =>
  error instanceof HostError
    ? new Refusal('failed', `host.${member}: ${error.message}`)
    : new Refusal('failed', `host.${member} failed`, (error as Error).message);

interface Call {
  readonly installation: LiveInstallation;
  /** As it stood when the call came. */
  readonly plugin: InstalledPlugin;
  readonly request: HostRequest;
  readonly invocation: Invocation | null;
  readonly childGone: AbortSignal;
}

async function answerCall(table: Table, rateLimits: TokenBuckets, call: Call): Promise<unknown> {
  const { plugin, request, invocation } = call;
  if (!Object.hasOwn(hostCalls, request.member)) throw new Refusal('denied', 'there is no such host call');
  const name = request.member as HostCallName;
  const row: HostRow = hostCalls[name];
  if (!isGranted(row, plugin.granted)) throw new Refusal('denied', `host.${name} is not granted`);
  const handler = table[name];
  if (!rateLimits.get(plugin.installationId).take())
    throw new Refusal('denied', `host.${name}: too many host calls a minute`);
  const args = checkArguments(name, row, request.args);
  const resume = row.pausesBudget ? invocation?.pauseBudget() : undefined;
  try {
    const grant = holdGrant(row, call.installation);
    const result = await withTime(row, name, { ...call, grant }, (signal) =>
      run(handler, scopeOf(call, signal, grant), args),
    ).finally(grant.release);
    return checkResult(name, row, result);
  } finally {
    resume?.();
  }
}

const scopeOf = ({ plugin, request, invocation }: Call, signal: AbortSignal, grant: HeldGrant): HostScope => ({
  granted: grant.granted,
  needs: grant.needs,
  plugin,
  session: invocation?.session ?? null,
  invocationId: invocation ? request.invocationId : null,
  signal,
});

/** The one place where a row's handler is called without its row's types: the arguments were checked against the row. */
function run(handler: HostHandlers[HostCallName], scope: HostScope, args: Record<string, unknown>): Promise<unknown> {
  return (handler as (scope: HostScope, args: Record<string, unknown>) => Promise<unknown>)(scope, args);
}

async function withTime(
  row: HostRow,
  name: string,
  call: Call & { readonly grant: HeldGrant },
  work: (signal: AbortSignal) => Promise<unknown>,
): Promise<unknown> {
  const late = AbortSignal.timeout(row.timeoutMs);
  // Only what belongs to a session ends with its handler: other work may go on after the answer.
  const over = row.capability === 'session' && call.invocation ? [call.invocation.over] : [];
  const signal = AbortSignal.any([late, call.childGone, call.grant.gone, ...over]);
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => {
    if (call.grant.gone.aborted) reject(new Refusal('denied', `host.${name} is not granted any more`));
    else if (late.aborted) reject(new Refusal('timeout', `host.${name} took longer than ${row.timeoutMs} ms`));
    else reject(new Refusal('cancelled', `host.${name} was called for a handler that is over`));
  };
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work(signal), aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function record(
  deps: HostCallRouterDeps,
  plugin: InstalledPlugin,
  request: HostRequest,
  invocation: Invocation | null,
  end: { outcome: AuditOutcome; detail: string | null; durationMs: number },
): void {
  const row: HostRow | undefined = Object.hasOwn(hostCalls, request.member)
    ? hostCalls[request.member as HostCallName]
    : undefined;
  deps.metrics.hostCalled(row ? request.member : 'unknown', end.outcome, plugin, end.durationMs);
  // A row that reaches nothing is audited only when it was refused.
  if (row?.audit === 'none' && end.outcome !== 'denied') return;
  deps.audit.write({
    installationId: plugin.installationId,
    sessionId: invocation?.session?.id ?? null,
    invocationId: invocation?.id ?? null,
    member: request.member,
    args: request.args,
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
