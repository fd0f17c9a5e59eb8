/** What a version asks for against what an account granted. Pure. */
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';

/** What would change for the user: what is asked for anew, and what is no longer needed. */
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

/** Whether an installation may run a version without asking its user again. */
export const isCovered = (granted: readonly string[], wanted: readonly string[]): boolean =>
  findMissingCapabilities(wanted, granted).length === 0;
