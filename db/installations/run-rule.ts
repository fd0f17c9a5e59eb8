/** The rule that decides whether an installation may run, as functions and as SQL. */
import type { InstallationStatus } from './installation-state.ts';

interface RunState {
  readonly status: InstallationStatus;
  readonly blockedReason: string | null;
}
interface UpdateState {
  readonly plugin: RunState;
  /** Names of the required settings and secrets without a value. */
  readonly missing: readonly string[];
}

/** `failed` is active: the supervisor decides when to start it again. */
export const isActive = ({ status }: Pick<RunState, 'status'>): boolean => status === 'ready' || status === 'failed';

/** Why deliveries and events of an installation wait until it changes, as a clause; null: it may run. */
export function describeInactive({ status, blockedReason }: RunState): string | null {
  if (blockedReason !== null) return blockedReason;
  if (isActive({ status })) return null;
  return `the installation is not ready: ${status === 'needs_configuration' ? 'set what it needs in its settings' : status}`;
}

/**
 * Why an operator stopped an installation, as a clause: its plugin is blocked, or its account suspended. For a query with
 * `installations i` and `plugins p`.
 */
export const BLOCKED_REASON_SQL = `coalesce('the operator blocked this plugin: ' || p.blocked_reason,
  (SELECT 'its account is suspended: ' || s.suspended_reason FROM accounts s WHERE s.id = i.account_id))`;

/** An operator's block stops an active installation. */
export const mayRun = (installation: RunState): boolean =>
  isActive(installation) && installation.blockedReason === null;

/**
 * Whether the version of an update may start. It may where the current version lacks configuration that the new one does
 * not need.
 */
export const mayUpdate = ({ plugin: { status, blockedReason }, missing }: UpdateState): boolean =>
  status !== 'paused' && status !== 'uninstalling' && blockedReason === null && missing.length === 0;

/** Whether the update under way of `installations i` goes on when its version is yanked: its user pinned that version. */
export const KEEPS_YANKED_SQL = `(i.version_policy = 'Pinned' AND i.rollback_reason IS NULL)`;
/**
 * Whether the update under way of `installations i` may go on to its version `v`. A yank of a version with thousands of followers
 * ends their updates in batches: until then, this condition stops them.
 */
export const IS_TARGET_VALID_SQL = `(v.status <> 'yanked' OR ${KEEPS_YANKED_SQL})`;

/**
 * Whether the version that the user pinned for `installations i` was yanked before it ran there: no update moves to it any more. One
 * that runs, or that an update under way moves to, stays.
 */
export const HAS_LOST_PIN_SQL = `EXISTS (SELECT 1 FROM versions y WHERE y.id = i.pinned_version_id AND y.status = 'yanked'
  AND y.id IS DISTINCT FROM i.current_version_id AND y.id IS DISTINCT FROM i.target_version_id)`;

/** Statuses in which an installation receives events: the last event arrives while it is uninstalled. For a query with `installations i`. */
export const RECEIVES_EVENTS_SQL = `i.status IN ('ready', 'failed', 'uninstalling')`;

/** `mayRun` for a query with `installations i` and `plugins p`. */
export const MAY_RUN_SQL = `i.status IN ('ready', 'failed') AND ${BLOCKED_REASON_SQL} IS NULL`;
