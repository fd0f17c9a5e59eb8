/** Compares the capabilities of a version with those that an account granted. Pure. */
import type { Installation } from '../../db/installations/installations.ts';
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';

type Grants = Pick<Installation, 'grantedCapabilities' | 'secretNames' | 'secretsAllow'>;

/** Returns the capabilities to grant, and those that are no longer needed. */
export function diffCapabilities(grants: Grants, wanted: readonly string[]): { added: string[]; removed: string[] } {
  const needed = new Set(wanted);
  return {
    added: findMissing(grants, wanted),
    removed: grants.grantedCapabilities.filter((capability) => !needed.has(capability)),
  };
}

/** Whether an installation may run a version without the user's consent. */
export const isCovered = (grants: Grants, wanted: readonly string[]): boolean =>
  findMissing(grants, wanted).length === 0;

const findMissing = (
  { grantedCapabilities, secretNames: names, secretsAllow: allowed }: Grants,
  wanted: readonly string[],
): string[] => findMissingCapabilities(wanted, grantedCapabilities, { names, allowed });
