/** `host.ssh`: runs commands on the hosts of the account. The account's SSH hooks check command and result. */
import type { LogSink } from '../../records/log-sink.ts';
import type { HostArgs, HostHandlers, HostResult, HostScope } from '../host-call.ts';
import { runSshCommand, type SshAccess, type SshResult } from './guarded-command.ts';
import type { SshGuards } from './guards.ts';

interface SshDeps extends SshAccess {
  readonly guards: SshGuards;
  readonly logs: LogSink;
}
export type SshCalls = Pick<HostHandlers, 'ssh.hosts' | 'ssh.run'>;

export function sshCalls(deps: SshDeps): SshCalls {
  return {
    'ssh.hosts': async ({ plugin }) =>
      (await deps.hosts.listForAccount(plugin.accountId)).map(({ id, name }) => ({ id, name })),
    'ssh.run': (scope, args) => run(deps, scope, args),
  };
}

async function run(deps: SshDeps, scope: HostScope, args: HostArgs<'ssh.run'>): Promise<HostResult<'ssh.run'>> {
  const { guards } = deps;
  const depth = guards.findDepth(scope);
  const result = await runSshCommand(deps, {
    accountId: scope.plugin.accountId,
    connectionOwner: scope.plugin.installationId,
    hostId: args.hostId,
    command: args.command,
    options: args.options ?? {},
    signal: scope.signal,
    judge: (hook, context) => guards.runGuards(scope, hook, context, depth),
  });
  logCommand(deps.logs, scope, result);
  const { exitCode, stdout, stderr } = result;
  return { exitCode, stdout, stderr };
}

/** Logs the exit without the command and its output, from which a hook may have removed secrets. */
function logCommand(
  logs: LogSink,
  { plugin, session, invocationId }: HostScope,
  { host, exitCode, durationMs, traces }: SshResult,
): void {
  const message = `host.ssh.run on ${host.name}: ${exitCode === null ? 'ended by a signal' : `exit ${exitCode}`}`;
  const data = { exitCode, durationMs, traces };
  logs.system(plugin, 'info', message, { sessionId: session?.id ?? null, invocationId, data });
}
