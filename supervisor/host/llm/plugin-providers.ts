/** Models that the account's other plugins offer, and how one is asked. */
import { randomUUIDv7 } from 'node:crypto';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { surfaces } from '../../../sdk/contract/protocol.ts';
import type { Invocations } from '../../calls/invocations.ts';
import type { PluginPort } from '../../calls/plugin-port.ts';
import { formatFullName } from '../../calls/surface-call.ts';
import { HostError } from '../host-call.ts';
import type { CompletionRequest, ModelAnswer } from './model.ts';

/** A provider may ask models itself, which other plugins may provide: at most so many of them one inside the other. */
export const PROVIDERS_DEEP_MAX = 3;

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
  /** How deep the running calls are that were made here. Those of the session API are the first. */
  readonly #depths = new Map<string, number>();

  constructor(deps: PluginProviderDeps) {
    this.#deps = deps;
  }

  /** What the account's other installations offer. */
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

  /** Asks one. @throws HostError with nothing of the other plugin's words in it but a veto's reason */
  async ask(asking: InstalledPlugin, offered: OfferedModel, request: CompletionRequest): Promise<ModelAnswer> {
    const depth = this.#depthOf(asking) + 1;
    if (depth > PROVIDERS_DEEP_MAX)
      throw new HostError(`more than ${PROVIDERS_DEEP_MAX} plugin providers ask each other; the call ends here`);
    const { plugin, provider: name, model } = offered;
    const invocationId = randomUUIDv7();
    this.#depths.set(invocationId, depth);
    const fields = { request: { ...request, model: model.id } };
    const call = { kind: 'providers', name, plugin, session: null, fields, invocationId } as const;
    const result = await this.#deps.otherPlugins.callSurface(call).finally(() => this.#depths.delete(invocationId));
    if (result.kind === 'cancelled') throw new HostError(`${formatFullName(plugin, name)} refused: ${result.reason}`);
    if (result.kind === 'unavailable') throw new HostError(`${formatFullName(plugin, name)} cannot be asked right now`);
    if (result.kind === 'timeout') throw new HostError(`${formatFullName(plugin, name)} took too long`);
    const checked = result.kind === 'answered' ? surfaces.providers.result.safeParse(result.answer) : null;
    if (!checked?.success) throw new HostError(`${formatFullName(plugin, name)} failed; its own log says why`);
    return checked.data;
  }

  /**
   * A child's word for what it is doing would let it deny that it answers for somebody: whatever it asks for while it
   * runs as a provider counts as asked for that.
   */
  #depthOf({ installationId }: InstalledPlugin): number {
    const running = this.#deps.invocations
      .listRunning(installationId)
      .filter(({ source }) => source.startsWith('providers.'));
    return Math.max(0, ...running.map(({ id }) => this.#depths.get(id) ?? 1));
  }
}
