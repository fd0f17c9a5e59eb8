/** Calls the tools, commands and providers of plugins. */
import { randomUUIDv7 } from 'node:crypto';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { surfaces } from '../../sdk/contract/protocol.ts';
import { createRetryProblem } from '../../service/http/retry-problem.ts';
import type { AccountPluginsCache } from '../children/account-plugins-cache.ts';
import type { LinkResult } from './chain.ts';
import type { ChainDeps } from './chain-runner.ts';
import { canHaveSession, pickStack } from './plugin-call.ts';
import type { SurfaceRequest } from './plugin-port.ts';
import { checkSurfaceAnswer } from './surface-answers.ts';

type SurfaceServices = Pick<ChainDeps, 'invoker' | 'metrics' | 'logs'> & {
  readonly pluginsCache: Pick<AccountPluginsCache, 'current'>;
};

/**
 * Looks an installation up again, because hooks may have run since the caller found it.
 *
 * @returns it with its present settings; null: it may not run any more
 */
export async function findRunning(
  { pluginsCache }: Pick<SurfaceServices, 'pluginsCache'>,
  { accountId, installationId }: Pick<InstalledPlugin, 'accountId' | 'installationId'>,
): Promise<InstalledPlugin | null> {
  const { plugins } = await pluginsCache.current(accountId);
  return plugins.find((plugin) => plugin.installationId === installationId) ?? null;
}

/**
 * Calls a handler with the budget of its surface and the present settings of its installation, unless that may not run any more. Writes a
 * failure to the plugin's log. Checks the answer of a command or a provider, and that a provider's answer continues its deltas, even if the
 * caller does not read them. The caller checks the result of a tool.
 */
export async function callSurface(services: SurfaceServices, request: SurfaceRequest): Promise<LinkResult> {
  const { kind, name, session } = request;
  const plugin = await findRunning(services, request.plugin);
  if (!plugin) return STOPPED_PLUGIN;
  const started = performance.now();
  const deadlineAt = Date.now() + surfaces[kind].budgetMs;
  const invocationId = request.invocationId ?? randomUUIDv7();
  const scoped = canHaveSession(kind) ? session : null;
  const called = await services.invoker.invoke(plugin, {
    target: { kind, name },
    invocationId,
    session: scoped,
    deadlineAt,
    signal: request.signal,
    onDelta: request.onDelta ?? (kind === 'providers' ? ignoreDelta : undefined),
    context: {
      invocationId,
      settings: plugin.settings,
      deadlineAt: new Date(deadlineAt).toISOString(),
      ...(scoped ? buildSessionFields(scoped) : {}),
      ...request.fields,
    },
  });
  const result = kind === 'tools' || called.kind !== 'answered' ? called : checkSurfaceAnswer(kind, called.answer);
  services.metrics.targetRan({ kind, name }, plugin, result.kind, performance.now() - started);
  logFailure(services, { ...request, plugin }, invocationId, result);
  return result;
}

/** The result of a call of a plugin that stopped after the caller found it. */
export const STOPPED_PLUGIN = {
  kind: 'unavailable',
  message: 'The plugin may not run any more: it was paused, blocked or uninstalled, or lacks settings.',
  isUnsent: true,
} as const satisfies LinkResult;

const ignoreDelta = async (): Promise<void> => undefined;

/**
 * Parses the result of a tool. If it is malformed, writes the reason to the plugin's log.
 *
 * @param read throws a Problem for a malformed result
 */
export function readOrLog<T>(
  { logs }: Pick<SurfaceServices, 'logs'>,
  { plugin, session, tool }: { readonly plugin: InstalledPlugin; readonly session: Session; readonly tool: string },
  read: () => T,
): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof Problem)
      logs.system(plugin, 'error', `tools.${tool} (error): ${error.message}`, { sessionId: session.id });
    throw error;
  }
}

function logFailure(
  { logs }: SurfaceServices,
  request: SurfaceRequest,
  invocationId: string,
  result: LinkResult,
): void {
  const { kind, name, plugin, session } = request;
  const details = { sessionId: session?.id ?? null, invocationId };
  if (result.kind === 'cancelled') logs.system(plugin, 'info', `${kind}.${name} cancelled: ${result.reason}`, details);
  else if (result.kind !== 'answered') {
    const text = `${kind}.${name} (${result.kind}): ${result.message}`;
    logs.system(plugin, 'error', text, { ...details, data: { outcome: result.kind, ...pickStack(result) } });
  }
}

/** The session's fields in a context. */
const buildSessionFields = (session: Session) => ({
  session: { id: session.id, channelId: session.channelId },
  agent: { id: session.agentId, name: session.agentName },
});

/** A child that is started or restarted, or that answers its waiting calls, can usually take the call then. Seconds. */
const RETRY_AFTER_S = 2;

/** Turns a failed call into the problem that its caller gets. */
export function toProblem(slug: string, result: Exclude<LinkResult, { kind: 'answered' }>): Problem {
  if (result.kind === 'cancelled') return new Problem('cancelled', `${slug} refused: ${result.reason}`);
  if ('invalidArguments' in result) {
    return new Problem('invalid_arguments', result.message, { errors: result.invalidArguments });
  }
  if (result.kind === 'timeout') return new Problem('plugin_timeout', `${slug} took too long.`);
  if (result.kind === 'unavailable') {
    const detail = `${slug}: ${result.message}`;
    return result.overLimit
      ? createRetryProblem('rate_limited', `${detail}.`, RETRY_AFTER_S)
      : new Problem('unavailable', detail, { retryAfter: RETRY_AFTER_S });
  }
  return new Problem('plugin_failed', `${slug} failed: ${result.message}`);
}
