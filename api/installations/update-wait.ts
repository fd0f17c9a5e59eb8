/** Says what an update under way waits for. Pure. */
import { labelMissingConfiguration } from '../../db/installations/configuration.ts';
import type { Installation } from '../../db/installations/installations.ts';

type Facts = Pick<
  Installation,
  'targetVersionId' | 'targetSemVer' | 'targetManifest' | 'status' | 'settings' | 'secretNames' | 'blockedReason'
>;

/** The action of the user without which the update under way cannot start. Null: no action is needed, or no update is under way. */
export function describeUpdateWait(facts: Facts): string | null {
  const { targetVersionId, targetManifest, status, settings, secretNames } = facts;
  if (targetVersionId === null || targetManifest === null) return null;
  const name = facts.targetSemVer ?? 'the draft';
  if (status === 'paused') return `Resume it, so that ${name} can start.`;
  const missing = labelMissingConfiguration(targetManifest, settings, secretNames);
  if (missing !== '') return `Set ${missing}, so that ${name} can start.`;
  return facts.blockedReason === null ? null : `The operator must unblock the plugin before ${name} can start.`;
}
