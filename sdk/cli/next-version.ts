/** Proposes the next version number from what changed for users of the plugin. */
import { findMissingCapabilities } from '../contract/capabilities.ts';
import { comparePrecedence, findLatestVersion, raiseVersion } from '../contract/version-numbers.ts';
import { listDiscovered, listNeeds } from './discovered.ts';
import type { Discovered, Version } from './rest-types.ts';

interface Changes {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** Tools that may reject arguments that were valid before. */
  readonly narrowed: readonly string[];
  /** New capabilities that users must grant, new secrets, and secrets with a new use. */
  readonly requested: readonly string[];
}
export interface Proposal {
  readonly semVer: string;
  readonly changes: Changes;
  /** The reason for the number, for people. */
  readonly because: string;
}
type Contents = Pick<Version, 'capabilities' | 'discovered'>;

const FIRST = '1.0.0';

/**
 * @param versions all versions, because even the number of a yanked one cannot be reused
 * @param previous the latest version; null if nothing was published
 */
export function proposeVersion(versions: readonly Version[], previous: Version | null, next: Contents): Proposal {
  const taken = versions.map(({ semVer }) => semVer);
  if (!previous) {
    const changes = { added: listDiscovered(next.discovered), removed: [], narrowed: [], requested: [] };
    const wanted = taken.length === 0 ? FIRST : findHighest(taken);
    return { semVer: findFreeNumber(wanted, taken), changes, because: 'the first version' };
  }
  const changes = compareVersions(previous, next);
  const semVer = findFreeNumber(raiseVersion(previous.semVer, chooseStep(changes, previous.semVer)), taken);
  return { semVer, changes, because: describeChanges(changes) };
}

/**
 * The capabilities that users of the latest version must accept before they get a new one.
 *
 * @param before the versions without the new one
 */
export function listRequested(before: readonly Version[], added: Version): string[] {
  const latest = findLatestVersion(before);
  const isOffered = findLatestVersion([...before, added])?.id === added.id;
  return latest && isOffered ? findMissingCapabilities(added.capabilities, latest.capabilities) : [];
}

/** Before 1.0.0, a breaking change raises the minor number. */
function chooseStep(changes: Changes, semVer: string): 'major' | 'minor' | 'patch' {
  if (changes.removed.length + changes.narrowed.length > 0) return semVer.startsWith('0.') ? 'minor' : 'major';
  return changes.added.length + changes.requested.length > 0 ? 'minor' : 'patch';
}

function compareVersions(before: Contents, after: Contents): Changes {
  const needs = listNeeds(after.capabilities);
  // A user may have stored each secret for an earlier version.
  const names = needs.flatMap((name) => /^secrets\.([^:]+)/.exec(name)?.[1] ?? []);
  const [old, now] = [listDiscovered(before.discovered), listDiscovered(after.discovered)];
  return {
    added: now.filter((name) => !old.includes(name)),
    removed: old.filter((name) => !now.includes(name)),
    narrowed: findNarrowedTools(before.discovered, after.discovered),
    requested: findMissingCapabilities(needs, before.capabilities, { names, allowed: before.capabilities }),
  };
}

function findNarrowedTools(before: Discovered, after: Discovered): string[] {
  return after.tools.flatMap(({ name, parameters }) => {
    const old = before.tools.find((tool) => tool.name === name);
    return old && !isCompatible(parameters, old.parameters) ? [`tools.${name}`] : [];
  });
}

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly required?: readonly string[];
}

/** Adding optional properties is compatible; every other change of a schema is treated as breaking. */
function isCompatible(now: unknown, before: unknown): boolean {
  const { properties = {}, required = [], ...rest } = (now ?? {}) as ObjectSchema;
  const { properties: old = {}, required: needed = [], ...oldRest } = (before ?? {}) as ObjectSchema;
  const sameProperties = Object.entries(old).every(([name, schema]) =>
    isSame(withoutText(properties[name]), withoutText(schema)),
  );
  return (
    sameProperties && required.every((name) => needed.includes(name)) && isSame(withoutText(rest), withoutText(oldRest))
  );
}

/** Removes descriptions, which do not affect validation. */
const withoutText = (schema: unknown): unknown =>
  JSON.parse(
    JSON.stringify(schema ?? null, (key, value) =>
      key === 'description' && typeof value === 'string' ? undefined : value,
    ),
  );
const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

function describeChanges({ added, removed, narrowed, requested }: Changes): string {
  const parts = [
    ...(removed.length > 0 ? [`removes ${removed.join(', ')}`] : []),
    ...(narrowed.length > 0 ? [`changes the arguments of ${narrowed.join(', ')}`] : []),
    ...(added.length > 0 ? [`adds ${added.join(', ')}`] : []),
    ...(requested.length > 0 ? [`requests ${requested.join(', ')}`] : []),
  ];
  return parts.length > 0 ? parts.join('; ') : 'no change for users';
}

const findHighest = (taken: readonly string[]): string => taken.toSorted(comparePrecedence).at(-1) ?? FIRST;

function findFreeNumber(wanted: string, taken: readonly string[]): string {
  let semVer = wanted;
  while (taken.includes(semVer)) semVer = raiseVersion(semVer, 'patch');
  return semVer;
}
