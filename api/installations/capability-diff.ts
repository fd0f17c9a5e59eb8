/** Compares the capabilities of a version with those an account granted. Pure. */
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';

/** Difference for the user: capabilities to grant, and capabilities no longer needed. */
interface CapabilityDiff {
  readonly added: string[];
  readonly removed: string[];
}

export function diffCapabilities(granted: readonly string[], wanted: readonly string[]): CapabilityDiff {
  return {
    added: findMissingCapabilities(wanted, granted),
    removed: granted.filter((capability) => !wanted.includes(capability)),
  };
}

/** Whether an installation may run a version without the user's consent. */
export const isCovered = (granted: readonly string[], wanted: readonly string[]): boolean =>
  findMissingCapabilities(wanted, granted).length === 0;
