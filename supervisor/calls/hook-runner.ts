/** Runs a hook over the plugins of an account and records a cancel in the session's transcript. */
import type { Pool } from 'pg';
import { toStorable } from '../../db/postgres/storable-text.ts';
import { appendMessages } from '../../db/sessions/sessions.ts';
import { describeCancel } from '../../sdk/contract/errors.ts';
import { type AccountPluginsCache, idleOf, linksOf } from '../children/account-plugins-cache.ts';
import type { ChainState } from './chain.ts';
import { type ChainDeps, runChain } from './chain-runner.ts';
import type { HookRequest } from './plugin-port.ts';

interface HookDeps extends ChainDeps {
  readonly pool: Pool;
  readonly pluginsCache: AccountPluginsCache;
}

export async function runHook(deps: HookDeps, request: HookRequest): Promise<ChainState> {
  const { hook, accountId, excludedInstallationId } = request;
  const accountPlugins = deps.pluginsCache.peek(accountId) ?? (await deps.pluginsCache.get(accountId));
  const all = linksOf(accountPlugins, hook);
  const links =
    excludedInstallationId === undefined
      ? all
      : all.filter(({ installationId }) => installationId !== excludedInstallationId);
  const state = await runChain(deps, { ...request, links, idle: idleOf(accountPlugins, hook) });
  if (state.cancelled && request.session) await recordCancel(deps, request, request.session.id, state.cancelled);
  return state;
}

async function recordCancel(
  { pool }: HookDeps,
  { hook, noticeId }: HookRequest,
  sessionId: string,
  { reason, by }: NonNullable<ChainState['cancelled']>,
): Promise<void> {
  const data = { kind: 'cancelled', hook, installationId: by.installationId, plugin: by.slug };
  const text = describeCancel(by.slug, toStorable(reason));
  await appendMessages(pool, sessionId, [{ id: noticeId, role: 'notice', text, data }]);
}
