/** Compares the capabilities of a version with those an account granted. Pure. */
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';

/** Returns the capabilities to grant, and those that are no longer needed. */
export const diffCapabilities = (granted: readonly string[], wanted: readonly string[]) => ({
  added: findMissingCapabilities(wanted, granted),
  removed: granted.filter((capability) => !wanted.includes(capability)),
});

/** Whether an installation may run a version without the user's consent. */
export const isCovered = (granted: readonly string[], wanted: readonly string[]): boolean =>
  findMissingCapabilities(wanted, granted).length === 0;
