/** The tools of an account's plugins: lists, finds and calls them. */
import { closest } from 'fastest-levenshtein';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import type { ToolResult } from '../../sdk/session/api-types.ts';
import { callSurface, toProblem } from '../calls/surface-call.ts';
import type { AccountPlugins, ToolRef } from '../children/account-plugins-cache.ts';
import { callBetweenHooks, type JudgedResult, type ToolCall } from './judged-call.ts';
import type { SessionServices } from './session-services.ts';
import { failedTool, readToolResult } from './tool-results.ts';

export interface ToolItem {
  readonly name: string;
  readonly description: string;
  readonly parameters: unknown;
  readonly installationId: string;
  readonly slug: string;
}

/** Lists the tools of an account, by installation and name. */
export const listTools = (accountPlugins: AccountPlugins): ToolItem[] =>
  [...accountPlugins.tools].map(([name, { plugin, tool }]) => ({
    name,
    description: plugin.registrations.tools[tool]?.description ?? '',
    parameters: plugin.registrations.tools[tool]?.parameters ?? {},
    installationId: plugin.installationId,
    slug: plugin.slug,
  }));

/** Finds a tool by its full name. @throws Problem `not_found` that suggests the nearest name */
export function findTool(accountPlugins: AccountPlugins, name: string): ToolRef {
  const found = accountPlugins.tools.get(name);
  if (found) return found;
  const names = [...accountPlugins.tools.keys()];
  const hint = names.length > 0 ? ` Did you mean ${closest(name.slice(0, 200), names)}?` : '';
  throw new Problem('not_found', `No tool has this name.${hint}`);
}

/**
 * Calls a tool between its two hooks. If the handler throws, the result has `isError`, so that the agent can read the error
 * and correct its call.
 *
 * @throws Problem `invalid_arguments`, `plugin_timeout`, `plugin_failed`, `unavailable`
 */
export const callTool = (
  services: SessionServices,
  session: Session,
  tool: ToolRef,
  call: Omit<ToolCall, 'name'>,
): Promise<JudgedResult> => {
  const name = formatFullName(tool.plugin, tool.tool);
  return callBetweenHooks(services, session, { ...call, name }, (args) =>
    callHandler(services, session, tool, { ...call, arguments: args }),
  );
};

async function callHandler(
  services: SessionServices,
  session: Session,
  { plugin, tool }: ToolRef,
  { signal, callId, arguments: args }: Omit<ToolCall, 'name'>,
): Promise<ToolResult> {
  const fields = { callId, arguments: args };
  const result = await callSurface(services, { kind: 'tools', name: tool, plugin, session, signal, fields });
  if (signal?.aborted && result.kind !== 'answered') return failedTool(describeAbort(signal));
  if (result.kind === 'answered')
    return readToolResult(formatFullName(plugin, tool), result.answer, services.toolResultBytes);
  if (result.kind === 'error' && !('invalidArguments' in result)) return failedTool(result.message);
  if (result.kind === 'cancelled') return failedTool(result.reason);
  throw toProblem(formatFullName(plugin, tool), result);
}

/** For the agent, and for a runtime that asks for the result later. */
const describeAbort = ({ reason }: AbortSignal): string => {
  const why = reason instanceof Error ? reason.message : 'its caller cancelled it';
  return `The call was aborted: ${why}. The tool may have done a part of its work.`;
};
