/** `host.ssh`: runs commands on the operator's hosts. The account's SSH hooks check command and result. */
import { randomUUIDv7 } from 'node:crypto';
import type { z } from 'zod';
import { SECOND } from '../../../sdk/contract/limits.ts';
import { hooks } from '../../../sdk/contract/protocol.ts';
import type { ChainState } from '../../calls/chain.ts';
import type { LogSink } from '../../records/log-sink.ts';
import { type HostArgs, HostError, type HostHandlers, type HostResult, type HostScope } from '../host-call.ts';
import { commandLine } from './command-line.ts';
import type { SshConnections } from './connections.ts';
import type { SshGuards } from './guards.ts';
import type { SshHosts, SshTarget } from './hosts.ts';
import { type RemoteEnd, type RemoteRun, runRemote } from './remote-command.ts';

/** Default time limit of a command. Milliseconds. */
const DEFAULT_TIMEOUT_MS = 60 * SECOND;

interface SshDeps {
  readonly hosts: SshHosts;
  readonly connections: SshConnections;
  readonly guards: SshGuards;
  readonly logs: LogSink;
}
export type SshCalls = Pick<HostHandlers, 'ssh.hosts' | 'ssh.run'>;

/** Creates the handlers of the two rows. */
export function sshCalls(deps: SshDeps): SshCalls {
  return {
    'ssh.hosts': async ({ plugin }) =>
      (await deps.hosts.listForAccount(plugin.accountId)).map(({ id, name }) => ({ id, name })),
    'ssh.run': (scope, args) => run(deps, scope, args),
  };
}

const commandContext = hooks['middleware.sshCommand'].context;
const inputContext = hooks['middleware.sshCommandInput'].context;
const outputContext = hooks['middleware.sshCommandOutput'].context.pick({ stdout: true, stderr: true });

async function run(deps: SshDeps, scope: HostScope, args: HostArgs<'ssh.run'>): Promise<HostResult<'ssh.run'>> {
  const target = await findTarget(deps.hosts, scope, args.hostId);
  const { guards } = deps;
  const depth = guards.findDepth(scope);
  const { command, options = {} } = args;
  const { cwd = null, env = {}, timeoutMs = DEFAULT_TIMEOUT_MS, input = '' } = options;
  const host = { id: target.id, name: target.name };
  const guarded = await guards.runGuards(scope, 'middleware.sshCommand', { host, command, cwd, env, timeoutMs }, depth);
  const checked = read(commandContext, guarded.context);
  const traces: Traces = { sshCommand: guarded.trace };
  let data = input;
  if (input !== '') {
    const commandId = randomUUIDv7();
    const typed = await guards.runGuards(scope, 'middleware.sshCommandInput', { commandId, data }, depth);
    traces.sshCommandInput = typed.trace;
    ({ data } = read(inputContext, typed.context));
  }
  const line = commandLine({ ...checked, inputBytes: Buffer.byteLength(data) });
  const started = performance.now();
  const end = await runOn(deps, scope, target, { line, input: data, timeoutMs, signal: scope.signal });
  const durationMs = Math.round(performance.now() - started);
  const shown = await guards.runGuards(
    scope,
    'middleware.sshCommandOutput',
    { command: checked.command, ...end, durationMs },
    depth,
  );
  traces.sshCommandOutput = shown.trace;
  logCommand(deps.logs, scope, target, { exitCode: end.exitCode, durationMs, traces });
  return { exitCode: end.exitCode, ...read(outputContext, shown.context) };
}

/** The same error for unknown hosts and for those of others. */
async function findTarget(hosts: SshHosts, { plugin }: HostScope, hostId: string): Promise<SshTarget> {
  if (!hosts.configured) throw new HostError('no SSH host is configured: the operator names them with SSH_HOSTS_FILE');
  const target = (await hosts.listForAccount(plugin.accountId)).find(({ id }) => id === hostId);
  if (!target) throw new HostError('no SSH host of this account has this id; host.ssh.hosts() lists them');
  return target;
}

/** Only a connection whose command exited normally is used again. */
async function runOn(deps: SshDeps, scope: HostScope, target: SshTarget, run: RemoteRun): Promise<RemoteEnd> {
  const { connections } = deps;
  const connection = await connections.acquire(scope.plugin.installationId, target, scope.signal);
  try {
    const end = await runRemote(connection, run);
    connections.giveBack(connection);
    return end;
  } catch (error) {
    connections.end(connection);
    throw error;
  }
}

type Traces = Partial<Record<'sshCommand' | 'sshCommandInput' | 'sshCommandOutput', ChainState['trace']>>;

/** Logs the exit without the command and its output, from which a hook may have removed secrets. */
function logCommand(
  logs: LogSink,
  { plugin, session, invocationId }: HostScope,
  target: SshTarget,
  data: { exitCode: number | null; durationMs: number; traces: Traces },
): void {
  const message = `host.ssh.run on ${target.name}: ${data.exitCode === null ? 'ended by a signal' : `exit ${data.exitCode}`}`;
  logs.system(plugin, 'info', message, { sessionId: session?.id ?? null, invocationId, data });
}

/** Returns the chain's fields with their types; every patch was validated against the row. */
function read<Schema extends z.ZodType>(schema: Schema, fields: unknown): z.output<Schema> {
  const checked = schema.safeParse(fields);
  if (checked.success) return checked.data;
  throw new HostError('a hook left the command in a state that cannot be run');
}
