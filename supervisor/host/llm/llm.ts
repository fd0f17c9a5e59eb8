/** `host.models` and `host.llm`: the operator's models first, then those of the account's other plugins. */
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { mayTakePlace } from '../../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../../db/timing/amounts-by-key.ts';
import { UnrepeatedError } from '../../../service/telemetry/error-log.ts';
import { RepeatedErrors } from '../../../service/telemetry/repeated-errors.ts';
import { HostError, type HostHandlers, type HostScope } from '../host-call.ts';
import type { ConfiguredModel, ModelProvider } from './configuration.ts';
import { openEndpointFetch } from './endpoint-fetch.ts';
import { type CompletionRequest, EndpointFault, type ModelAnswer } from './model.ts';
import { type OfferedModel, type PluginProviderDeps, PluginProviders } from './plugin-providers.ts';
import { Spending, type SpendingDeps } from './spending.ts';

/** Maximum concurrent calls of one installation: each holds a connection and an answer. */
const COMPLETIONS_AT_ONCE = 8;
/** Maximum concurrent calls of one supervisor; each account may take its share of them. */
const COMPLETIONS_TOTAL = 96;
/** Maximum number of models in one list. */
const LISTED_MAX = 1_000;
/** Maximum length of an id in the protocol. Characters. */
const ID_MAX_CHARS = 200;
const NONE =
  'no model is configured: set MODELS_FILE to a file of model endpoints (docs/models.md), or install a plugin that provides one';

export interface LlmDeps extends PluginProviderDeps, SpendingDeps {
  readonly models: readonly ModelProvider[];
}
export interface Llm {
  readonly calls: Pick<HostHandlers, 'models.list' | 'llm.complete'>;
  /** Ends running calls and closes their connections. */
  close(): Promise<void>;
}
type Found =
  | {
      readonly kind: 'configured';
      readonly id: string;
      readonly provider: ModelProvider;
      readonly model: ConfiguredModel;
    }
  | { readonly kind: 'plugin'; readonly id: string; readonly offered: OfferedModel };

/** Creates the handlers. Connects nothing before the first call. */
export function openLlm(deps: LlmDeps): Llm {
  const configured = deps.models.flatMap((provider) =>
    provider.models.map(
      (model): Found => ({ kind: 'configured', id: `${provider.name}/${model.id}`, provider, model }),
    ),
  );
  const plugins = new PluginProviders(deps);
  // With fewer connections, the calls of one account could use all of an endpoint.
  const endpoints = openEndpointFetch(COMPLETIONS_TOTAL);
  const spending = new Spending(deps);
  const faults = new RepeatedErrors({ report: deps.onError });
  const logFault = ({ slug }: InstalledPlugin, { message }: Error): void =>
    faults.add(
      new UnrepeatedError(`A call of the plugin ${slug} to a model endpoint of MODELS_FILE failed: ${message}.`),
    );
  const ofInstallation = new AmountsByKey();
  const ofAccount = new AmountsByKey();
  const known = async (plugin: InstalledPlugin): Promise<Found[]> => [
    ...configured,
    ...(await plugins.list(plugin)).map((offered): Found => ({ kind: 'plugin', id: offered.id, offered })),
  ];
  const askModel = async (scope: HostScope, found: Found, request: CompletionRequest): Promise<ModelAnswer> => {
    if (found.kind === 'plugin') return plugins.askModel(scope, found.offered, request);
    await spending.allow(scope.plugin);
    const { askEndpoint } = await import('./endpoint.ts');
    const { provider, model } = found;
    const charge = { plugin: scope.plugin, provider, model };
    const answer = await askEndpoint({
      provider,
      modelId: model.id,
      request,
      signal: scope.signal,
      fetch: endpoints.fetch,
      onBrokenOff: (usage) => spending.countBrokenOff(charge, usage),
    }).catch((error: Error) => {
      if (error instanceof EndpointFault && !scope.signal.aborted) logFault(scope.plugin, error);
      throw error;
    });
    await spending.count(charge, answer.usage);
    return answer;
  };
  const complete: HostHandlers['llm.complete'] = async (scope, { request }) => {
    const found = choose(await known(scope.plugin), request.model);
    const { text, usage, json } = await askModel(scope, found, request);
    // The child that asked checks the answer against its schema, which is the plugin's code.
    return { text, usage, model: found.id, ...(request.schema && json !== undefined ? { json: json as never } : {}) };
  };
  return {
    calls: {
      'models.list': async ({ plugin }) => (await known(plugin)).filter(isShort).slice(0, LISTED_MAX).map(describe),
      'llm.complete': async (scope, args) => {
        const { installationId, accountId } = scope.plugin;
        if (ofInstallation.get(installationId) >= COMPLETIONS_AT_ONCE)
          throw new HostError(`more than ${COMPLETIONS_AT_ONCE} calls at once; wait until one has ended`);
        const own = ofAccount.get(accountId);
        if (!mayTakePlace(own, COMPLETIONS_TOTAL - ofAccount.total))
          throw new HostError(`this account already runs ${own} model calls; wait until one has ended`);
        return ofAccount.during(accountId, () => ofInstallation.during(installationId, () => complete(scope, args)));
      },
    },
    close: () => {
      faults.close();
      return endpoints.close();
    },
  };
}

const isShort = ({ id }: Found): boolean => id.length <= ID_MAX_CHARS;

function describe(found: Found) {
  const { name, contextWindow } = found.kind === 'configured' ? found.model : found.offered.model;
  return { id: found.id, name, ...(contextWindow === undefined ? {} : { contextWindow }) };
}

/** Finds a model by its full id, or a configured one by its short id. Default: the first model. */
function choose(known: readonly Found[], wanted: string | undefined): Found {
  const [first] = known;
  if (!first) throw new HostError(NONE);
  if (wanted === undefined) return first;
  const bare = (found: Found) => found.kind === 'configured' && found.model.id === wanted;
  const found = known.find(({ id }) => id === wanted) ?? known.find(bare);
  if (!found) throw new HostError('no model has this id; host.models.list() lists the available ones');
  return found;
}
