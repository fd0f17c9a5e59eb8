/** The rule that decides whether an installation may move to a version without its user's consent. Pure. */
import { findMissingCapabilities, GrantSet } from '../../sdk/contract/capabilities.ts';
import { findMissingConfiguration, type Manifest } from '../../sdk/contract/manifest.ts';
import { hooks } from '../../sdk/contract/protocol.ts';
import type { Version } from '../catalog/versions.ts';
import type { Installation } from './installations.ts';

type AskedVersion = Pick<Version, 'id' | 'capabilities' | 'manifest'>;
type Grants = Pick<Installation, 'grantedCapabilities' | 'secretNames' | 'secretsAllow'>;

/** The use of a secret without reading it, such as `secrets.key:webhooks`. */
const HANDLE = /^secrets\.(?<secret>[^:]+):/;

/**
 * The granted capabilities without the remembered uses of secrets that the current version does not declare: they give nothing,
 * and serve only to ask the user when a later version wants more.
 */
export function listHeldCapabilities({
  grantedCapabilities,
  currentManifest,
}: Pick<Installation, 'grantedCapabilities' | 'currentManifest'>): string[] {
  return grantedCapabilities.filter((capability) => {
    const secret = HANDLE.exec(capability)?.groups?.secret;
    return secret === undefined || currentManifest === null || Object.hasOwn(currentManifest.secrets, secret);
  });
}

interface CapabilityDiff {
  /** Those to grant. */
  readonly added: string[];
  /** Those that are no longer needed. */
  readonly removed: string[];
  /** Parts of removed ones that are still needed, such as one host of a wildcard. */
  readonly narrowed: string[];
}

export function diffCapabilities(
  grants: Grants & Pick<Installation, 'currentManifest'>,
  wanted: readonly string[],
): CapabilityDiff {
  const held = listHeldCapabilities(grants);
  const added = findMissing(grants, wanted);
  // Sets, because an author chooses the size of both lists.
  const needed = new Set(wanted);
  const removed = held.filter((capability) => !needed.has(capability));
  const known = new Set([...held, ...added]);
  const given = new GrantSet(removed);
  return { added, removed, narrowed: wanted.filter((one) => !known.has(one) && given.covers(one)) };
}

/** Whether an installation may run a version without the user's consent. */
export const isCovered = (grants: Grants, wanted: readonly string[]): boolean =>
  findMissing(grants, wanted).length === 0;

const findMissing = (
  { grantedCapabilities, secretNames: names, secretsAllow: allowed }: Grants,
  wanted: readonly string[],
): string[] => findMissingCapabilities(wanted, grantedCapabilities, { names, allowed });

/** Names of required settings and secrets that a version lacks, and the current version does not. */
export function findNewlyMissing(
  { currentManifest, settings, secretNames }: Pick<Installation, 'currentManifest' | 'settings' | 'secretNames'>,
  manifest: Manifest,
): string[] {
  const known = currentManifest ? findMissingConfiguration(currentManifest, settings, secretNames) : [];
  return findMissingConfiguration(manifest, settings, secretNames).filter((name) => !known.includes(name));
}

/**
 * Whether a version needs no consent: it asks for nothing new, lacks no configuration that the current version has, and
 * drops no hook of a plugin that must see everything.
 */
export function mayApply(installation: Installation, version: AskedVersion): boolean {
  const isComplete =
    installation.currentVersionId === version.id || findNewlyMissing(installation, version.manifest).length === 0;
  const isHookDropped = installation.required && dropsHook(installation, version);
  return isCovered(installation, version.capabilities) && isComplete && !isHookDropped;
}

export const dropsHook = (
  { grantedCapabilities }: Pick<Installation, 'grantedCapabilities'>,
  { capabilities }: Pick<Version, 'capabilities'>,
): boolean => listDroppedHooks(grantedCapabilities, capabilities).length > 0;

/** The hooks among the capabilities that a version lacks. */
export const listDroppedHooks = (capabilities: readonly string[], ofVersion: readonly string[]): string[] =>
  capabilities.filter((one) => Object.hasOwn(hooks, one) && !ofVersion.includes(one));
