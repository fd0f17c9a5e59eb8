/** The rule that decides whether a crash loop returns an installation to its previous version. */
import { findMissingCapabilities, intersectCapabilities } from '../../sdk/contract/capabilities.ts';
import { comparePrecedence } from '../../sdk/contract/version-numbers.ts';
import type { VersionStatus } from '../catalog/versions.ts';
import { listDroppedHooks } from './consent-rule.ts';

/** An installation and the version that it ran before. A version number is null for a draft. */
export interface RollbackState {
  readonly required: boolean;
  /** Whether the user pinned the current version. */
  readonly isPinned: boolean;
  readonly granted: readonly string[];
  /** Of the version that its user is asked about. Null: of none. */
  readonly pendingCapabilities: readonly string[] | null;
  readonly semVer: string | null;
  readonly previousGrants: readonly string[];
  readonly previousSemVer: string | null;
  readonly previousStatus: VersionStatus;
}

/**
 * Says why a crash loop may not return the installation to its previous version. Checked when the rollback begins and when it completes:
 *
 * - not away from a version that the user pinned, and not to a yanked one;
 * - a required plugin not to a version without one of its hooks: a user who can make the plugin crash must not switch its
 *   hooks off;
 * - after a downgrade not to more access: the user took it away, and an author who can make the plugin crash must not get it
 *   back;
 * - not to access that a pending update asks the user for, even if that update was published after the rollback began.
 *
 * After a pin no version with more access is left: `forgetWiderVersion` removes it.
 *
 * @returns a part of a sentence for the user; null: it may
 */
export function findRollbackRefusal(state: RollbackState): string | null {
  const { required, isPinned, granted, previousGrants, previousStatus } = state;
  if (isPinned) return 'it is pinned';
  if (previousStatus === 'yanked') return 'that one was yanked';
  if (required && listDroppedHooks(granted, previousGrants).length > 0)
    return 'the plugin is required, and that one lacks a hook';
  const more = findMissingCapabilities(previousGrants, granted);
  if (more.length === 0) return null;
  if (!isUpgrade(state)) return 'that one has more access, which was taken away';
  return isAskedFor(more, state) ? 'that one has access that an update asks for' : null;
}

const isAskedFor = (more: readonly string[], { pendingCapabilities, granted }: RollbackState): boolean =>
  intersectCapabilities(more, findMissingCapabilities(pendingCapabilities ?? [], granted)).length > 0;

/** Whether the current version is newer than the previous one. A draft is newer than all others: its owner saved it last. */
const isUpgrade = ({ semVer, previousSemVer }: RollbackState): boolean =>
  semVer === null || (previousSemVer !== null && comparePrecedence(semVer, previousSemVer) > 0);
