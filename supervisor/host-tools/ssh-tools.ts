/** `ssh__…`: commands on the SSH hosts of the account, for agents. */
import { z } from 'zod';
import type { Session } from '../../db/sessions/sessions.ts';
import type { Trigger } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { sshOptions } from '../../sdk/contract/payloads.ts';
import { HostError, HostLimitError } from '../host/host-call.ts';
import { runSshCommand, type SshResult, UnknownSshHostError } from '../host/ssh/guarded-command.ts';
import { UnfinishedCommandError } from '../host/ssh/remote-command.ts';
import { runHookOrThrow } from '../sessions/hooks.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { defineTool, type HostTool } from './host-tool.ts';

const COMMAND_MAX_CHARS = 131_072;
/** Maximum concurrent commands of all agents of an account, within its share of the supervisor's. */
const AGENTS_CONNECTIONS_MAX = 32;

/** Fields that requests and tools share. */
export const sshCommandFields = {
  host: z.string().min(1).describe('The id of a host, as the list of hosts has it.'),
  command: z.string().min(1).max(COMMAND_MAX_CHARS).describe('A line for the shell of the host.'),
  ...sshOptions.shape,
};
type SshRequest = z.output<z.ZodObject<typeof sshCommandFields>>;
type SshAnswer = Omit<SshResult, 'traces'>;

/**
 * @throws Problem `cancelled`, `not_found` for an unknown host, `outcome_unknown` when the command timed out, its connection broke, or its
 *   output could not be judged, `rate_limited`, and `bad_request` when the command could not be run
 */
export async function runSsh(
  services: SessionServices,
  session: Session,
  { host: hostId, command, ...options }: SshRequest,
  {
    trigger,
    signal = new AbortController().signal,
  }: { readonly trigger: Trigger; readonly signal?: AbortSignal | undefined },
): Promise<SshAnswer> {
  const { accountId } = session;
  try {
    const { traces: _, ...answer } = await runSshCommand(services.ssh, {
      accountId,
      connectionOwner: `agents of ${accountId}`,
      connectionsMax: AGENTS_CONNECTIONS_MAX,
      hostId,
      command,
      options,
      signal,
      judge: (hook, context) => runHookOrThrow(services, session, hook, context, trigger),
    });
    return answer;
  } catch (error) {
    throw toSshProblem(error, hostId);
  }
}

/** Host errors have texts for plugins. The callers here are REST clients and agents. */
function toSshProblem(error: unknown, hostId: string): unknown {
  if (error instanceof UnknownSshHostError)
    return new Problem(
      'not_found',
      `This account has no SSH host with the id “${hostId}”. GET /sessions/{id}/ssh-hosts or the tool ssh__hosts lists them.`,
    );
  if (!(error instanceof HostError)) return error;
  if (error instanceof HostLimitError)
    return new Problem('rate_limited', `The command did not run: ${error.message}.`, { retryAfter: error.retryAfter });
  const code = error instanceof UnfinishedCommandError ? 'outcome_unknown' : 'bad_request';
  return new Problem(code, `The command did not run to its end: ${error.message}.`);
}

export const listSshHosts = async ({ ssh }: SessionServices, { accountId }: Session) =>
  (await ssh.hosts.listForAccount(accountId)).map(({ id, name }) => ({ id, name }));

export const sshTools: readonly HostTool[] = [
  defineTool({
    name: 'ssh__hosts',
    description: 'Lists the hosts on which commands can run.',
    input: z.strictObject({}),
    isRepeatable: true,
    run: async (services, session) => ({ hosts: await listSshHosts(services, session) }),
  }),
  defineTool({
    name: 'ssh__run',
    description: 'Runs a command on a host over SSH, and returns its exit code and output. Long output is cut.',
    input: z.strictObject(sshCommandFields),
    // A command that a crash interrupted may have run.
    isRepeatable: false,
    run: (services, session, request, { signal }) => runSsh(services, session, request, { trigger: 'agent', signal }),
  }),
];
