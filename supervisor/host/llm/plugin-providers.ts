/** Lists and calls the models that the account's other plugins provide. */
import { randomUUIDv7 } from 'node:crypto';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { formatFullName } from '../../../sdk/contract/full-names.ts';
import type { Invocations } from '../../calls/invocations.ts';
import type { PluginPort } from '../../calls/plugin-port.ts';
import { HostError, type HostScope } from '../host-call.ts';
import type { CompletionRequest, ModelAnswer } from './model.ts';

/** Maximum depth of providers that call models of other providers. */
const PROVIDERS_DEEP_MAX = 3;

export interface OfferedModel {
  /** `<slug>__<provider>/<model>` */
  readonly id: string;
  readonly plugin: InstalledPlugin;
  readonly provider: string;
  readonly model: { readonly id: string; readonly name: string; readonly contextWindow?: number | undefined };
}
export interface PluginProviderDeps {
  readonly otherPlugins: PluginPort;
  readonly invocations: Invocations;
}

export class PluginProviders {
  readonly #deps: PluginProviderDeps;
  /** Depth of the running provider calls. A running provider that is not in the map was called by the session API and counts as depth 1. */
  readonly #depths = new Map<string, number>();

  constructor(deps: PluginProviderDeps) {
    this.#deps = deps;
  }

  /** Lists the models of the account's other installations. */
  async list(asking: InstalledPlugin): Promise<OfferedModel[]> {
    const { plugins } = await this.#deps.otherPlugins.loadPlugins(asking.accountId);
    return plugins
      .filter(({ installationId }) => installationId !== asking.installationId)
      .flatMap((plugin) =>
        Object.entries(plugin.registrations.providers).flatMap(([provider, { models }]) =>
          models.map((model) => ({ id: `${formatFullName(plugin, provider)}/${model.id}`, plugin, provider, model })),
        ),
      );
  }

  /** Calls a model. @throws HostError without the other plugin's text, except the reason of a cancellation */
  async askModel(
    { plugin: asking, signal }: Pick<HostScope, 'plugin' | 'signal'>,
    offered: OfferedModel,
    request: CompletionRequest,
  ): Promise<ModelAnswer> {
    const depth = this.#findDepth(asking) + 1;
    if (depth > PROVIDERS_DEEP_MAX)
      throw new HostError(`more than ${PROVIDERS_DEEP_MAX} plugin providers ask each other; the call ends here`);
    const { plugin, provider: name, model } = offered;
    const invocationId = randomUUIDv7();
    this.#depths.set(invocationId, depth);
    const fields = { request: { ...request, model: model.id } };
    const call = { kind: 'providers', name, plugin, session: null, fields, invocationId, signal } as const;
    const result = await this.#deps.otherPlugins.callSurface(call).finally(() => this.#depths.delete(invocationId));
    if (result.kind === 'cancelled') throw new HostError(`${formatFullName(plugin, name)} refused: ${result.reason}`);
    if (result.kind === 'unavailable') throw new HostError(`${formatFullName(plugin, name)} is unavailable now`);
    if (result.kind === 'timeout') throw new HostError(`${formatFullName(plugin, name)} took too long`);
    if (result.kind !== 'answered') throw new HostError(`${formatFullName(plugin, name)} failed; its own log says why`);
    return result.answer as ModelAnswer;
  }

  /**
   * Every model call of a child that runs as a provider counts as nested, even if the child claims that it belongs to
   * another invocation.
   */
  #findDepth({ installationId }: InstalledPlugin): number {
    const running = this.#deps.invocations
      .listRunning(installationId)
      .filter(({ source }) => source.startsWith('providers.'));
    return Math.max(0, ...running.map(({ id }) => this.#depths.get(id) ?? 1));
  }
}
