/** What a version asks for against what an account granted. Pure. */
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';
import type { Manifest } from '../../sdk/contract/manifest.ts';
import { findMissingConfiguration } from '../../sdk/contract/manifest.ts';

/** What would change for the user: what is asked for anew, and what is no longer needed. */
export interface CapabilityDiff {
  readonly added: string[];
  readonly removed: string[];
}

export function diffCapabilities(granted: readonly string[], wanted: readonly string[]): CapabilityDiff {
  return {
    added: findMissingCapabilities(wanted, granted),
    removed: granted.filter((capability) => !wanted.includes(capability)),
  };
}

/** Whether an installation may run a version without asking its user again. */
export const isCovered = (granted: readonly string[], wanted: readonly string[]): boolean =>
  findMissingCapabilities(wanted, granted).length === 0;

/** The parts of an installation that decide its status. */
export interface Configured {
  readonly settings: Readonly<Record<string, string>>;
  readonly secretNames: readonly string[];
}
type Status = 'ready' | 'needs_configuration' | 'paused' | 'failed' | 'uninstalling';

/**
 * The status after a change of version or configuration. A pause stays; a failed one gets another chance, since what
 * failed has changed.
 */
export function resolveStatus(
  before: Status,
  manifest: Manifest,
  { settings, secretNames }: Configured,
): { status: Status; statusReason: string | null } {
  if (before === 'paused' || before === 'uninstalling') return { status: before, statusReason: null };
  const missing = findMissingConfiguration(manifest, settings, secretNames);
  if (missing.length === 0) return { status: 'ready', statusReason: null };
  return { status: 'needs_configuration', statusReason: `Set ${missing.join(', ')} before it can run.` };
}
