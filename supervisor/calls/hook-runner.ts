/** Runs a hook over the plugins of an account and records a cancel in the session's transcript. */
import type { Pool } from 'pg';
import { replaceUnstorable } from '../../db/postgres/storable-json.ts';
import { appendNotices, type Session } from '../../db/sessions/sessions.ts';
import type { AccountPluginsCache } from '../children/account-plugins-cache.ts';
import type { CancelNotices } from '../records/cancel-notices.ts';
import type { HookCounts } from '../records/hook-counts.ts';
import { type Cancel, type ChainState, formatCancel } from './chain.ts';
import { type ChainDeps, runChain } from './chain-runner.ts';
import type { HookRequest } from './plugin-port.ts';

export interface HookDeps extends ChainDeps {
  readonly pool: Pool;
  readonly pluginsCache: AccountPluginsCache;
  readonly hookCounts: HookCounts;
  readonly cancelNotices: CancelNotices;
}

export async function runHook(deps: HookDeps, request: HookRequest): Promise<ChainState> {
  const loadPlugins = () => deps.pluginsCache.current(request.accountId);
  const state = await runChain(deps, { ...request, loadPlugins });
  if (request.session) deps.hookCounts.count(request.session.id, request.hook, state.cancelled !== null);
  if (state.cancelled && request.session) await recordCancel(deps, request, request.session, state.cancelled);
  return state;
}

export async function recordCancel(
  { pool, cancelNotices }: Pick<HookDeps, 'pool' | 'cancelNotices'>,
  { hook, noticeId }: Pick<HookRequest, 'hook' | 'noticeId'>,
  session: Session,
  cancel: Cancel,
): Promise<void> {
  const { by, cause } = cancel;
  const data = { kind: 'cancelled', hook, installationId: by.installationId, plugin: by.slug, cause };
  const text = replaceUnstorable(formatCancel(cancel));
  if (noticeId === undefined) return await cancelNotices.add(session, { text, data });
  // A plugin's cancel is final. After a failure the operation is retried, so this notice leaves `noticeId` free for a later cancel.
  const id = cause === 'failure' ? `${noticeId}:stopped` : noticeId;
  await appendNotices(pool, session.id, [{ id, text, data }]);
}
