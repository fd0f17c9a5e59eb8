/** Lists and calls the model providers of an account's plugins. */
import type { z } from 'zod';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import type { providerCompletion, providerRequest } from '../../sdk/contract/payloads.ts';
import type { Completion } from '../../sdk/session/api-types.ts';
import { callSurface, toProblem } from '../calls/surface-call.ts';
import type { DeltaReader, ProviderDelta } from '../children/answer-deltas.ts';
import { preferTokenError } from './closed-requests.ts';
import { chooseModel } from './model-choice.ts';
import type { SessionServices } from './session-services.ts';

export type ProviderRequest = z.infer<typeof providerRequest>;
export type ProviderAnswer = z.infer<typeof providerCompletion>;

const READER_LEFT = 'the runtime closed the request';

export const listProviders = (plugins: readonly InstalledPlugin[]) =>
  plugins.flatMap((plugin) =>
    Object.entries(plugin.registrations.providers).map(([name, { models }]) => ({
      name: formatFullName(plugin, name),
      models,
      installationId: plugin.installationId,
      slug: plugin.slug,
    })),
  );

/** A session, or an account outside of a session. */
type ProviderCaller = Session | { readonly accountId: string };

/** Removes the tool calls from an answer: the request of a session has no `tools`. */
export const toSessionAnswer = ({ toolCalls: _none, ...answer }: ProviderAnswer): Completion => answer;

/**
 * Calls a model, yields the pieces of its answer as they arrive, and returns the whole answer. A slow reader slows the plugin down,
 * and ending the generator aborts the call.
 *
 * @throws Problem as `askProvider`, or if the token of the request ended, what a further request would be refused with
 */
export async function* streamProvider(
  services: SessionServices,
  caller: ProviderCaller,
  wanted: string,
  request: ProviderRequest,
  signal: AbortSignal,
): AsyncGenerator<ProviderDelta, ProviderAnswer> {
  const { readable, writable } = new TransformStream<ProviderDelta, ProviderDelta>();
  const writer = writable.getWriter();
  const ended = new AbortController();
  const end = (): Promise<void> => writer.close().catch(() => undefined);
  // A write fails after the reader has left. `finally` then aborts the call.
  const read: DeltaReader = (delta) => writer.write(delta).catch(() => undefined);
  const asked = askProvider(services, caller, wanted, request, AbortSignal.any([signal, ended.signal]), read);
  asked.then(end, end);
  try {
    yield* readable;
    return await asked;
  } catch (error) {
    // The plugin did not fail, and the client needs another token.
    throw preferTokenError(signal, error);
  } finally {
    ended.abort(READER_LEFT);
    asked.catch(() => undefined);
  }
}

/**
 * Calls a model.
 *
 * @param caller the session, or the account alone
 * @param onDelta receives the pieces of the answer. Default: pieces are ignored
 * @throws Problem `not_found`, `invalid_arguments`, `plugin_failed`, `plugin_timeout`, `rate_limited`, `unavailable`, `cancelled`
 */
export async function askProvider(
  services: SessionServices,
  caller: ProviderCaller,
  wanted: string,
  request: ProviderRequest,
  signal: AbortSignal,
  onDelta?: DeltaReader,
): Promise<ProviderAnswer> {
  const session = 'id' in caller ? caller : null;
  const { plugins } = await services.pluginsCache.get(caller.accountId);
  const plugin = plugins.find(({ slug }) => wanted.startsWith(`${slug}__`));
  const name = wanted.slice((plugin?.slug.length ?? 0) + 2);
  if (!plugin || !Object.hasOwn(plugin.registrations.providers, name))
    throw new Problem('not_found', 'You have no model provider with this name. List the providers for their names.');
  const { models } = plugin.registrations.providers[name] ?? { models: [] };
  const fields = { request: { ...request, model: chooseModel(wanted, models, request.model) } };
  const result = await callSurface(services, { kind: 'providers', name, plugin, session, signal, onDelta, fields });
  if (result.kind !== 'answered') throw toProblem(wanted, result);
  return result.answer as ProviderAnswer;
}
