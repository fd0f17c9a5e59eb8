/** The tools of a session: those of the account's plugins, the host's own, and its runtime's. Lists, finds and calls them. */
import { randomUUIDv7 } from 'node:crypto';
import { listRuntimeTools, type RuntimeTool } from '../../db/sessions/runtime-tools.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { formatFullName, hostToolGroups, TOOL_NAME_MAX_CHARS } from '../../sdk/contract/full-names.ts';
import type { ToolResult } from '../../sdk/session/api-types.ts';
import { findNearName } from '../../service/text/near-name.ts';
import { describeIdle } from '../calls/chain-runner.ts';
import { callSurface, readOrLog, toProblem } from '../calls/surface-call.ts';
import type { AccountPlugins, ToolRef } from '../children/account-plugins-cache.ts';
import { findHostTool, listHostTools } from '../host-tools/catalog.ts';
import type { HostTool } from '../host-tools/host-tool.ts';
import {
  callBetweenHooks,
  HOST_RESULT_MAX_BYTES,
  type JudgedResult,
  type ToolCall,
  UnstartedCallError,
} from './judged-call.ts';
import type { SessionServices } from './session-services.ts';
import { failedTool, readToolResult } from './tool-results.ts';
import { digestOfOffer } from './turn-answers.ts';
import type { ToolItem } from './turn-schemas.ts';

/** Each name that a wrong one is compared with takes a microsecond of the event loop; an account may have 12,800 tools. */
const COMPARED_NAMES_MAX = 1_000;
/**
 * A model follows every suggestion, so only a misspelt name gets one: one edit for each five characters, so that `get` never
 * becomes `set`, and at most three, as for a misspelt field of a request.
 */
const CHARS_PER_EDIT = 5;
const EDITS_MAX = 3;
/** Full names that are listed for a name without a slug. More would fill the prompt of the model. */
const LISTED_NAMES_MAX = 3;
const SEPARATOR = formatFullName({ slug: '' }, '');

export type FoundTool =
  | { readonly kind: 'plugin'; readonly tool: ToolRef }
  | { readonly kind: 'host'; readonly tool: HostTool }
  | { readonly kind: 'runtime'; readonly tool: { readonly name: string } };

/** Lists the tools of an account, by installation and name. */
export const listTools = (accountPlugins: AccountPlugins): ToolItem[] =>
  [...accountPlugins.tools].map(([name, { plugin, tool }]) => ({
    name,
    description: plugin.registrations.tools[tool]?.description ?? '',
    parameters: plugin.registrations.tools[tool]?.parameters ?? {},
    installationId: plugin.installationId,
    slug: plugin.slug,
    performedBy: 'plugin',
  }));

/** Tells the tools of an account from those before a change. Made once for all clients of an account. */
export const digestTools = (accountPlugins: AccountPlugins): string =>
  digestOfOffer(accountPlugins, () =>
    [...accountPlugins.tools].map(([name, { plugin }]) => [
      name,
      plugin.installationId,
      digestOfOffer(plugin.registrations.tools),
    ]),
  );

/** Lists what a session offers: the tools of plugins, then the host's own, then the runtime's. */
export async function listSessionTools(services: SessionServices, session: Session): Promise<ToolItem[]> {
  const own = await listOwnTools(services, session);
  return [
    ...listOfferedTools(await services.pluginsCache.get(session.accountId), session),
    ...own.map((tool): ToolItem => ({ ...tool, installationId: null, slug: '', performedBy: 'runtime' })),
  ];
}

/** The tools that the runtime of a session performs itself. */
const listOwnTools = async ({ pool }: SessionServices, session: Session): Promise<readonly RuntimeTool[]> =>
  session.hasTools ? await listRuntimeTools(pool, session.id) : [];

/** The tools of these plugins, then the host's own, which win over a plugin's of the same name. */
export function listOfferedTools(accountPlugins: AccountPlugins, session: Session): ToolItem[] {
  const own = listHostTools(session).map(({ name, description, parameters }): ToolItem => {
    const slug = name.split('__')[0] ?? '';
    return { name, description, parameters, installationId: null, slug, performedBy: 'host' };
  });
  const names = new Set(own.map(({ name }) => name));
  const offered = listTools(accountPlugins).filter(({ name }) => !names.has(name));
  return [...offered, ...own];
}

/**
 * Finds a tool of a session by its full name.
 *
 * @param suggestsOwn whether the caller can list the tools that the runtime performs itself
 * @throws Problem `not_found` that names the tools with nearly the same name, or says why a plugin offers none
 */
export async function findTool(
  services: SessionServices,
  session: Session,
  name: string,
  suggestsOwn = true,
): Promise<FoundTool> {
  const hostTool = findHostTool(session, name);
  if (hostTool) return { kind: 'host', tool: hostTool };
  const known = (await services.pluginsCache.get(session.accountId)).tools.get(name);
  if (known) return { kind: 'plugin', tool: known };
  const own = await listOwnTools(services, session);
  if (own.some((tool) => tool.name === name)) return { kind: 'runtime', tool: { name } };
  const accountPlugins = await services.pluginsCache.getNewest(session.accountId);
  const found = accountPlugins.tools.get(name);
  if (found) return { kind: 'plugin', tool: found };
  const others = [...(suggestsOwn ? own : []), ...listHostTools(session)].map((tool) => tool.name);
  const hint = suggestTool(name, accountPlugins, others);
  throw new Problem('not_found', `No tool has this name.${hint}`);
}

/** @param others names of tools that are no plugin's @returns '' or a sentence after a space */
function suggestTool(wrong: string, { plugins, idle, tools }: AccountPlugins, others: readonly string[]): string {
  const wanted = wrong.slice(0, TOOL_NAME_MAX_CHARS);
  const slug = wanted.split(SEPARATOR, 1)[0] ?? '';
  const stopped = idle.find((plugin) => plugin.slug === slug);
  if (stopped) return ` The plugin ${stopped.slug} does not run: ${describeIdle(stopped)}.`;
  const names = [...others, ...tools.keys()];
  // A model that leaves out the slug means the tool of this name.
  const whole = names.filter((name) => name.endsWith(`${SEPARATOR}${wanted}`));
  if (whole.length > 1) return ` ${listFullNames(whole)}`;
  const near = whole[0] ?? findNearTool(wanted, slug, names);
  if (near !== null) return ` Did you mean ${near}?`;
  const known: readonly string[] = [...hostToolGroups, ...plugins.map((plugin) => plugin.slug)];
  return slug === '' || slug === wanted || known.includes(slug)
    ? ''
    : ` No plugin with the slug “${slug}” is installed.`;
}

function listFullNames(names: readonly string[]): string {
  const more = names.length - LISTED_NAMES_MAX;
  const end = more > 0 ? ` and ${more} more` : '';
  return `Several tools end with it, so use the full name: ${names.slice(0, LISTED_NAMES_MAX).join(', ')}${end}.`;
}

/** Compares a wrong name with those of the plugin that it names, otherwise with all. Null: none is that near. */
function findNearTool(wanted: string, slug: string, names: readonly string[]): string | null {
  const prefix = `${slug}${SEPARATOR}`;
  const ofPlugin = names.filter((name) => name.startsWith(prefix));
  const [compared, chars] = ofPlugin.length > 0 ? [ofPlugin, wanted.length - prefix.length] : [names, wanted.length];
  const edits = Math.min(EDITS_MAX, Math.floor(chars / CHARS_PER_EDIT));
  return findNearName(wanted, compared.slice(0, COMPARED_NAMES_MAX), edits);
}

/** Whether a call that a crash interrupted may be made again: it has its effect once. A runtime's was not handed over yet. */
export const isRepeatable = (found: FoundTool): boolean =>
  found.kind === 'runtime' || (found.kind === 'host' && found.tool.isRepeatable);

interface SessionCall extends Omit<ToolCall, 'name'> {
  /** Names the effect of a call of the host's tools. Default: a new id. */
  readonly requestId?: string | undefined;
  /** Whether a crash interrupted the call before. Default: false. */
  readonly isRepeated?: boolean | undefined;
}

/**
 * Calls a tool of a plugin or the host between its two hooks. If the handler throws, the result has `isError`, so that the agent can read the error
 * and correct its call.
 *
 * @returns with `problem` `invalid_arguments` where the arguments do not fit the tool's schema
 * @throws Problem `plugin_timeout`, `plugin_failed`, `rate_limited`, `unavailable`, `bad_request`
 */
export async function callTool(
  services: SessionServices,
  session: Session,
  found: FoundTool,
  { requestId = randomUUIDv7(), isRepeated = false, ...call }: SessionCall,
): Promise<JudgedResult> {
  if (found.kind === 'runtime')
    throw new Problem(
      'bad_request',
      `The runtime of this session performs ${found.tool.name} itself. Call it in a turn: POST /sessions/{id}/turns/{turnId}/calls/{callId}.`,
    );
  if (found.kind === 'host') {
    const { tool } = found;
    const ofHost = { ...call, name: tool.name, changedMaxBytes: HOST_RESULT_MAX_BYTES };
    return callBetweenHooks(services, session, ofHost, (args) =>
      tool.call(services, session, args, { requestId, isRepeated, signal: call.signal }),
    );
  }
  const name = formatFullName(found.tool.plugin, found.tool.tool);
  return callBetweenHooks(services, session, { ...call, name }, (args) =>
    callHandler(services, session, found.tool, { ...call, arguments: args }),
  );
}

async function callHandler(
  services: SessionServices,
  session: Session,
  { plugin, tool }: ToolRef,
  { signal, callId, arguments: args }: Omit<ToolCall, 'name'>,
): Promise<ToolResult | Problem> {
  const fields = { callId, arguments: args };
  const result = await callSurface(services, { kind: 'tools', name: tool, plugin, session, signal, fields });
  if (signal?.aborted && result.kind !== 'answered') {
    if ('isUnsent' in result) throw new UnstartedCallError();
    return failedTool(describeAbort(signal));
  }
  if (result.kind === 'answered') {
    const { answer } = result;
    return readOrLog(services, { plugin, session, tool }, () =>
      readToolResult(formatFullName(plugin, tool), answer, services.toolResultBytes),
    );
  }
  if (result.kind === 'cancelled') return failedTool(result.reason);
  const problem = toProblem(formatFullName(plugin, tool), result);
  if (result.kind === 'error' && !('invalidArguments' in result))
    // The host's reason, such as “it exceeded its memory limit”, needs a subject.
    return failedTool(result.stack === undefined ? problem.message : result.message);
  // The child chose this text: a child that does not run the host's program may say this after the tool ran.
  if ('invalidArguments' in result) return problem;
  throw problem;
}

/** For the agent, and for a runtime that asks for the result later. */
const describeAbort = ({ reason }: AbortSignal): string => {
  const why = reason instanceof Error ? reason.message : 'its caller cancelled it';
  return `The call was aborted: ${why}. The tool may have done a part of its work.`;
};
