/** Compares the capabilities of a version with those that an account granted. Pure. */
import type { Installation } from '../../db/installations/installations.ts';
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';

type Grants = Pick<Installation, 'grantedCapabilities' | 'secretNames' | 'secretsAllow'>;

/** Returns the capabilities to grant, and those that are no longer needed. */
export const diffCapabilities = (
  { grantedCapabilities, secretNames: names, secretsAllow: allowed }: Grants,
  wanted: readonly string[],
) => ({
  added: findMissingCapabilities(wanted, grantedCapabilities, { names, allowed }),
  removed: grantedCapabilities.filter((capability) => !wanted.includes(capability)),
});

/** Whether an installation may run a version without the user's consent. */
export const isCovered = (grants: Grants, wanted: readonly string[]): boolean =>
  diffCapabilities(grants, wanted).added.length === 0;
