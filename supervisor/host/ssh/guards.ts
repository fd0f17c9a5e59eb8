/** Runs the account's SSH hooks for a plugin's command, the same chains as for agents' commands. */
import { type ChainState, type Fields, formatCancel } from '../../calls/chain.ts';
import type { Invocations } from '../../calls/invocations.ts';
import type { PluginPort } from '../../calls/plugin-port.ts';
import { HostError, type HostScope } from '../host-call.ts';
import type { SshHook } from './guarded-command.ts';

const SSH_HOOK = /^middleware\.ssh/;
/** Maximum depth of SSH commands that SSH hooks run. */
const NESTED_MAX = 3;

interface GuardDeps {
  readonly invocations: Invocations;
  readonly otherPlugins: PluginPort;
}

export class SshGuards {
  readonly #deps: GuardDeps;
  /** Depth of the command for which each handler runs. */
  readonly #depths = new Map<string, number>();

  constructor(deps: GuardDeps) {
    this.#deps = deps;
  }

  /** Returns the depth of the caller's next command: 0 outside SSH hooks. @throws HostError when it is too deep */
  findDepth(scope: HostScope): number {
    const depth = this.#isInHook(scope) ? (this.#depths.get(scope.invocationId ?? '') ?? 0) + 1 : 0;
    if (depth <= NESTED_MAX) return depth;
    throw new HostError(`SSH hooks run commands inside each other more than ${NESTED_MAX} deep`);
  }

  /** Runs one hook. @param depth of the command @throws HostError when a plugin stops the command */
  async runGuards(scope: HostScope, hook: SshHook, context: Fields, depth: number): Promise<ChainState> {
    const { plugin, session } = scope;
    const state = await this.#deps.otherPlugins.runHook({
      hook,
      accountId: plugin.accountId,
      session,
      context,
      actor: plugin,
      // Skip the calling plugin: a hook that runs a command would otherwise call itself again and again.
      excludedInstallationId: this.#isInHook(scope) ? plugin.installationId : undefined,
      trigger: this.#findTrigger(scope),
      onLink: (invocationId) => {
        this.#depths.set(invocationId, depth);
        return () => this.#depths.delete(invocationId);
      },
    });
    if (!state.cancelled) return state;
    throw new HostError(formatCancel(state.cancelled));
  }

  #isInHook(scope: HostScope): boolean {
    return SSH_HOOK.test(this.#findSource(scope));
  }

  #findTrigger(scope: HostScope): string {
    const source = this.#findSource(scope);
    if (source.startsWith('tools.')) return 'tool';
    return source.startsWith('commands.') ? 'user' : 'system';
  }

  #findSource({ invocationId, plugin }: HostScope): string {
    return this.#deps.invocations.find(invocationId, plugin.installationId)?.source ?? '';
  }
}
