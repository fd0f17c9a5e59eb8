/** The account's SSH hooks around a command of a plugin: the same chains that agents' commands pass through. */
import type { Pool } from 'pg';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import type { HookName } from '../../../sdk/contract/protocol.ts';
import type { ChainState, Fields } from '../../calls/chain.ts';
import { type ChainDeps, runChain } from '../../calls/chain-runner.ts';
import type { Invocations } from '../../calls/invocations.ts';
import { type AccountPlugins, idleOf, linksOf } from '../../children/account-plugins-cache.ts';
import { noteCancel } from '../../sessions/hooks.ts';
import { HostError, type HostScope } from '../host-call.ts';

export type SshHook = Extract<HookName, `middleware.ssh${string}`>;
const SSH_HOOK = /^middleware\.ssh/;
/** SSH commands run by SSH hooks of commands run by SSH hooks …: as many as this, one inside the other. */
export const NESTED_MAX = 3;

export interface GuardDeps {
  readonly pool: Pool;
  readonly invocations: Invocations;
  /** Asked for at each chain: the fleet is made after the host calls it answers. */
  chains(): ChainDeps;
  loadAccountPlugins(accountId: string): Promise<AccountPlugins>;
}
export interface Guarded {
  readonly context: Fields;
  readonly trace: ChainState['trace'];
}

export class SshGuards {
  readonly #deps: GuardDeps;
  /** How deep the commands are for whose sake these handlers run. */
  readonly #depths = new Map<string, number>();

  constructor(deps: GuardDeps) {
    this.#deps = deps;
  }

  /** How deep a command of this caller is: 0 outside SSH hooks. @throws HostError when it is too deep */
  depthOf(scope: HostScope): number {
    const depth = this.#isInHook(scope) ? (this.#depths.get(scope.invocationId ?? '') ?? 0) + 1 : 0;
    if (depth <= NESTED_MAX) return depth;
    throw new HostError(`SSH hooks run commands inside each other more than ${NESTED_MAX} deep`);
  }

  /**
   * Runs one hook.
   *
   * @param depth of the command
   * @throws HostError when a plugin stops the command
   */
  async ask(scope: HostScope, hook: SshHook, context: Fields, depth: number): Promise<Guarded> {
    const { plugin, session } = scope;
    const accountPlugins = await this.#deps.loadAccountPlugins(plugin.accountId);
    const all = linksOf(accountPlugins, hook);
    // A plugin that runs a command to judge a command is not asked about its own: it would ask itself for ever.
    const links = this.#isInHook(scope) ? all.filter((link) => link.installationId !== plugin.installationId) : all;
    const { cancelled, ...state } = await runChain(this.#counting(depth), {
      ...{ hook, links, idle: idleOf(accountPlugins, hook), session, context, actor: plugin },
      trigger: this.#triggerOf(scope),
    });
    if (!cancelled) return state;
    if (session) await noteCancel(this.#deps, session, hook, { ...cancelled, noticeId: undefined });
    throw new HostError(`${cancelled.by.slug} stopped it: ${cancelled.reason}`);
  }

  /** Links are called as always; what they run meanwhile is known to be one deeper. */
  #counting(depth: number): ChainDeps {
    const chains = this.#deps.chains();
    const invoke: ChainDeps['invoker']['invoke'] = async (plugin: InstalledPlugin, call) => {
      this.#depths.set(call.invocationId, depth);
      try {
        return await chains.invoker.invoke(plugin, call);
      } finally {
        this.#depths.delete(call.invocationId);
      }
    };
    return { ...chains, invoker: { invoke } };
  }

  #isInHook(scope: HostScope): boolean {
    return SSH_HOOK.test(this.#sourceOf(scope));
  }

  #triggerOf(scope: HostScope): string {
    const source = this.#sourceOf(scope);
    if (source.startsWith('tools.')) return 'tool';
    return source.startsWith('commands.') ? 'user' : 'system';
  }

  #sourceOf({ invocationId, plugin }: HostScope): string {
    return this.#deps.invocations.find(invocationId, plugin.installationId)?.source ?? '';
  }
}
