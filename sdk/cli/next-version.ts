/** Proposes the next version number from what changed for users of the plugin. */
import { findMissingCapabilities } from '../contract/capabilities.ts';
import {
  comparePrecedence,
  FIRST_VERSION,
  findFreeNumber,
  findLatestVersion,
  raiseVersion,
} from '../contract/version-numbers.ts';
import { listDiscovered, listNeeds } from './discovered.ts';
import type { Discovered, Version } from './rest-types.ts';
import { compareSchemas } from './schema-changes.ts';

interface Changes {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** Places in the schemas of tools that now refuse arguments which were valid before, such as `tools.a.parameters/required`. */
  readonly narrowed: readonly string[];
  /** Places whose change may refuse such arguments. */
  readonly unclear: readonly string[];
  /** Places that take more arguments than before. */
  readonly widened: readonly string[];
  /** New capabilities that users must grant, new secrets and secrets with a new use, and settings that users must give. */
  readonly requested: readonly string[];
}
export interface Proposal {
  readonly semVer: string;
  readonly changes: Changes;
  /** The reason for the number, for people. */
  readonly because: string;
}
type Contents = Pick<Version, 'discovered'> & {
  readonly capabilities: readonly string[];
  /** Missing from a service of an earlier version, like `requiredFields`. */
  readonly settings?: readonly string[];
  readonly requiredFields?: readonly string[];
};

/**
 * @param versions all versions, because even the number of a yanked one cannot be reused
 * @param previous the latest version; null if nothing was published
 */
export function proposeVersion(versions: readonly Version[], previous: Version | null, next: Contents): Proposal {
  const taken = versions.map(({ semVer }) => semVer);
  if (!previous) {
    const changes = {
      added: listDiscovered(next.discovered),
      removed: [],
      narrowed: [],
      unclear: [],
      widened: [],
      requested: [],
    };
    const wanted = taken.length === 0 ? FIRST_VERSION : findHighest(taken);
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

/** The settings and secrets that users of the latest version must give before they get a new one. */
export function listNewlyRequired(before: readonly Version[], added: Version): string[] {
  const latest = findLatestVersion(before);
  const isOffered = findLatestVersion([...before, added])?.id === added.id;
  return latest && isOffered ? findNewlyRequired(latest, added) : [];
}

/** Before 1.0.0, a breaking change raises the minor number. */
function chooseStep(changes: Changes, semVer: string): 'major' | 'minor' | 'patch' {
  const { added, removed, narrowed, unclear, widened, requested } = changes;
  if (removed.length + narrowed.length + unclear.length > 0) return semVer.startsWith('0.') ? 'minor' : 'major';
  return added.length + widened.length + requested.length > 0 ? 'minor' : 'patch';
}

function compareVersions(before: Contents, after: Contents): Changes {
  const needs = listNeeds(after.capabilities);
  // A user may have stored each secret for an earlier version.
  const names = needs.flatMap((name) => /^secrets\.([^:]+)/.exec(name)?.[1] ?? []);
  const [old, now] = [listOffers(before, after), listOffers(after, before)];
  const settings = findNewlyRequired(before, after).filter((name) => after.settings?.includes(name));
  const requested = [
    ...findMissingCapabilities(needs, before.capabilities, { names, allowed: before.capabilities }),
    ...settings.map(formatSetting),
  ];
  return {
    added: now.filter((name) => !old.includes(name) && !requested.includes(name)),
    removed: old.filter((name) => !now.includes(name)),
    ...compareTools(before.discovered, after.discovered),
    requested,
  };
}

/** Of one of two versions. Settings are compared only if both have them. */
const listOffers = ({ discovered, settings = [] }: Contents, other: Contents): string[] => [
  ...listDiscovered(discovered),
  ...(other.settings === undefined ? [] : settings.map(formatSetting)),
];

const formatSetting = (name: string): string => `settings.${name}`;

const findNewlyRequired = (before: Contents, after: Contents): string[] =>
  before.requiredFields === undefined
    ? []
    : (after.requiredFields ?? []).filter((name) => !before.requiredFields?.includes(name));

/** Changes of the arguments of tools that both versions have, as places in their schemas. */
function compareTools(before: Discovered, after: Discovered): Pick<Changes, 'narrowed' | 'unclear' | 'widened'> {
  const changes = after.tools.flatMap(({ name, parameters }) => {
    const old = before.tools.find((tool) => tool.name === name);
    if (!old) return [];
    return compareSchemas(old.parameters ?? {}, parameters ?? {}, `tools.${name}.parameters`);
  });
  const list = (wanted: string) => changes.filter(({ effect }) => effect === wanted).map(({ at }) => at);
  return { narrowed: list('narrower'), unclear: list('unclear'), widened: list('wider') };
}

function describeChanges({ added, removed, narrowed, unclear, widened, requested }: Changes): string {
  const parts = [
    ...(removed.length > 0 ? [`removes ${removed.join(', ')}`] : []),
    ...(narrowed.length > 0 ? [`refuses arguments that were valid: ${narrowed.join(', ')}`] : []),
    ...(unclear.length > 0 ? [`may refuse arguments that were valid: ${unclear.join(', ')}`] : []),
    ...(added.length > 0 ? [`adds ${added.join(', ')}`] : []),
    ...(widened.length > 0 ? [`accepts more arguments: ${widened.join(', ')}`] : []),
    ...(requested.length > 0 ? [`requests ${requested.join(', ')}`] : []),
  ];
  return parts.length > 0 ? parts.join('; ') : 'no change for users';
}

const findHighest = (taken: readonly string[]): string => taken.toSorted(comparePrecedence).at(-1) ?? FIRST_VERSION;
