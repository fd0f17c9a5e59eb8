/** The rule that decides whether an installation may run, as functions and as SQL. */
import type { InstalledPlugin, UpdateTarget } from './account-plugins.ts';

type RunState = Pick<InstalledPlugin, 'status' | 'blockedReason'>;

/** `failed` is active: the supervisor decides when to start it again. */
export const isActive = ({ status }: Pick<RunState, 'status'>): boolean => status === 'ready' || status === 'failed';

/** An operator's block stops an active installation. */
export const mayRun = (installation: RunState): boolean =>
  isActive(installation) && installation.blockedReason === null;

/**
 * Whether the version of an update may start. It may where the current version lacks configuration that the new one does
 * not need.
 */
export const mayUpdate = ({ plugin: { status, blockedReason }, missing }: UpdateTarget): boolean =>
  status !== 'paused' && status !== 'uninstalling' && blockedReason === null && missing.length === 0;

/** `mayRun` for a query with `installations i` and `plugins p`. */
export const MAY_RUN_SQL = `i.status IN ('ready', 'failed') AND p.blocked_reason IS NULL`;
