/** Runs one command over SSH between its three hooks, which get the same `commandId` and host. */
import { randomUUIDv7 } from 'node:crypto';
import type { z } from 'zod';
import { Problem } from '../../../sdk/contract/errors.ts';
import { SECOND } from '../../../sdk/contract/limits.ts';
import type { sshOptions } from '../../../sdk/contract/payloads.ts';
import { type HookName, hooks } from '../../../sdk/contract/protocol.ts';
import type { ChainState, Fields } from '../../calls/chain.ts';
import { HostError } from '../host-call.ts';
import type { SshHost } from './account-hosts.ts';
import { formatCommandLine } from './command-line.ts';
import type { ConnectionOwner, SshConnections } from './connections.ts';
import type { SshHosts } from './hosts.ts';
import { cutOutput, type RemoteEnd, type RemoteRun, runRemote } from './remote-command.ts';

/** Default time limit of a command. Milliseconds. */
const DEFAULT_TIMEOUT_MS = 60 * SECOND;

/** The account has no host of this id. The text is for plugins. */
export class UnknownSshHostError extends HostError {}

export type SshHook = Extract<HookName, `middleware.ssh${string}`>;
export interface SshAccess {
  readonly hosts: SshHosts;
  readonly connections: SshConnections;
}
export interface SshCommand extends ConnectionOwner {
  readonly hostId: string;
  readonly command: string;
  readonly options: z.output<typeof sshOptions>;
  readonly signal: AbortSignal;
  /** Runs one hook. @throws an error when a plugin stops the command */
  judge(hook: SshHook, context: Fields): Promise<Pick<ChainState, 'context' | 'trace'>>;
}
type SshTraces = Partial<Record<'sshCommand' | 'sshCommandInput' | 'sshCommandOutput', ChainState['trace']>>;
export interface SshResult extends RemoteEnd {
  readonly commandId: string;
  readonly host: Pick<SshHost, 'id' | 'name'>;
  readonly durationMs: number;
  readonly traces: SshTraces;
}

const commandContext = hooks['middleware.sshCommand'].context;
const inputContext = hooks['middleware.sshCommandInput'].context;
const outputContext = hooks['middleware.sshCommandOutput'].context.pick({ stdout: true, stderr: true });

/** @throws HostError, Problem `outcome_unknown` when the command ran but its output could not be judged, or what `judge` throws before it ran */
export async function runSshCommand(access: SshAccess, request: SshCommand): Promise<SshResult> {
  const target = await findTarget(access.hosts, request);
  const { command, options, judge } = request;
  const { cwd = null, env = {}, timeoutMs = DEFAULT_TIMEOUT_MS, input = '' } = options;
  const commandId = randomUUIDv7();
  const host = { id: target.id, name: target.name };
  const guarded = await judge('middleware.sshCommand', { commandId, host, command, cwd, env, timeoutMs });
  const checked = read(commandContext, guarded.context);
  const traces: SshTraces = { sshCommand: guarded.trace };
  let data = input;
  if (input !== '') {
    const typed = await judge('middleware.sshCommandInput', { commandId, host, data });
    traces.sshCommandInput = typed.trace;
    ({ data } = read(inputContext, typed.context));
  }
  await requireUnchanged(access.hosts, request, target);
  const line = formatCommandLine({ ...checked, inputBytes: Buffer.byteLength(data) });
  const started = performance.now();
  const end = await runOn(access, request, target, { line, input: data, timeoutMs, signal: request.signal });
  const durationMs = Math.round(performance.now() - started);
  const ended = { commandId, host, command: checked.command, ...end, durationMs };
  const shown = await judge('middleware.sshCommandOutput', ended).catch((error: unknown) => {
    throw describeUnjudged(error);
  });
  traces.sshCommandOutput = shown.trace;
  const { stdout, stderr } = read(outputContext, shown.context);
  // Masks and hooks may have made them longer. The command ran, so a result that is too large must not fail the call.
  const outputs = { stdout: cutOutput(stdout), stderr: cutOutput(stderr) };
  return { commandId, host, exitCode: end.exitCode, ...outputs, durationMs, traces };
}

/** The command has run, so the failure must not look like one after which clients send the command again. */
function describeUnjudged(cause: unknown): Problem {
  const detail = 'The command ran, but plugins could not judge its output. Check what it did before you run it again.';
  const isOfPlugin = cause instanceof HostError || (cause instanceof Problem && cause.code === 'cancelled');
  return new Problem('outcome_unknown', isOfPlugin ? `${detail} ${cause.message}` : detail, { cause });
}

/** Finds the host. Unknown hosts and those of other accounts get the same error. */
async function findTarget(hosts: SshHosts, { accountId, hostId }: SshCommand): Promise<SshHost> {
  const target = (await hosts.listForAccount(accountId)).find(({ id }) => id === hostId);
  if (!target) throw new UnknownSshHostError('no SSH host of this account has this id; host.ssh.hosts() lists them');
  return target;
}

/** Plugins may have judged the command for seconds. Then an idle connection would still have the old login. */
async function requireUnchanged(hosts: SshHosts, request: SshCommand, { revision }: SshHost): Promise<void> {
  const now = await findTarget(hosts, request);
  if (now.revision !== revision) throw new HostError('the SSH host was changed or removed meanwhile');
}

/** Only a connection whose command exited normally is used again. */
async function runOn(
  { connections }: SshAccess,
  request: SshCommand,
  target: SshHost,
  run: RemoteRun,
): Promise<RemoteEnd> {
  const connection = await connections.acquire(request, target, request.signal);
  try {
    const end = await runRemote(connection, run);
    connections.giveBack(connection);
    const { mask } = connection;
    return { ...end, stdout: mask.maskText(end.stdout), stderr: mask.maskText(end.stderr) };
  } catch (error) {
    connections.end(connection);
    throw error;
  }
}

/** Returns the chain's fields with their types; every patch was validated against the row. */
function read<Schema extends z.ZodType>(schema: Schema, fields: unknown): z.output<Schema> {
  const checked = schema.safeParse(fields);
  if (checked.success) return checked.data;
  throw new HostError('a hook left the command in a state that cannot be run');
}
