/** Counts the tokens that plugins use of the operator's models, and enforces the daily limit. */
import type { Pool } from 'pg';
import { addUsage, countTokensToday } from '../../../db/accounts/model-usage.ts';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import type { Metrics } from '../../records/metrics.ts';
import { HostError } from '../host-call.ts';
import type { ConfiguredModel, ModelProvider } from './configuration.ts';
import type { ModelAnswer } from './model.ts';

type Usage = ModelAnswer['usage'];
/** One call of a configured model. */
interface Charge {
  readonly plugin: InstalledPlugin;
  readonly provider: ModelProvider;
  readonly model: ConfiguredModel;
}
export interface SpendingDeps {
  readonly pool: Pool;
  readonly metrics: Metrics;
  /** Input and output tokens of one plugin in an account; 0: no limit. */
  readonly tokensPerDay: number;
  onError(error: Error): void;
}

const MILLION = 1_000_000;

export class Spending {
  readonly #deps: SpendingDeps;

  constructor(deps: SpendingDeps) {
    this.#deps = deps;
  }

  /**
   * Running calls may exceed the limit, because their cost is known only at the end.
   *
   * @throws HostError when the limit is reached
   */
  async allow(plugin: InstalledPlugin): Promise<void> {
    const { pool, tokensPerDay } = this.#deps;
    if (tokensPerDay === 0) return;
    const used = await countTokensToday(pool, plugin);
    if (used < tokensPerDay) return;
    throw new HostError(
      `this plugin has used ${used} of its ${tokensPerDay} model tokens of today in this account; it may ask again after midnight UTC, or when the operator raises MODEL_TOKENS_PER_DAY`,
    );
  }

  /**
   * Counts a complete answer before the plugin gets it. An answer that cannot be counted is reported, and the plugin gets it all
   * the same: it is already paid for, and an error would make the plugin ask again.
   */
  async count(charge: Charge, usage: Usage): Promise<void> {
    const cost = computeCost(charge.model, usage);
    this.#deps.metrics.modelAnswered(charge.plugin, charge.provider.name, usage, cost);
    await this.#add(charge, { answers: 1, ...usage, cost }).catch(this.#deps.onError);
  }

  /** Counts the usage of an interrupted answer in the background. */
  countBrokenOff(charge: Charge, usage: Usage): void {
    this.#add(charge, { answers: 0, ...usage, cost: computeCost(charge.model, usage) }).catch(this.#deps.onError);
  }

  #add({ plugin, provider, model }: Charge, spent: Usage & { answers: number; cost: number }): Promise<void> {
    return addUsage(this.#deps.pool, plugin, `${provider.name}/${model.id}`, spent);
  }
}

function computeCost({ price }: ConfiguredModel, usage: Usage): number {
  if (!price) return 0;
  return (usage.inputTokens * price.inputPerMillion + usage.outputTokens * price.outputPerMillion) / MILLION;
}
