/**
 * Version numbers by SemVer 2.0.0, without build metadata. The standard does not limit numbers, so they are compared as
 * digits and raised as big integers: floating point would take 2^53 and 2^53 + 1 for one version.
 */

/** Maximum length of a version number. Characters. */
export const SEM_VER_MAX_CHARS = 100;

/** The number of a plugin's first version, unless its author chooses another. */
export const FIRST_VERSION = '1.0.0';

const NUMBER = String.raw`(?:0|[1-9]\d*)`;
const IDENTIFIER = String.raw`(?:${NUMBER}|\d*[A-Za-z-][0-9A-Za-z-]*)`;
const SEM_VER = new RegExp(
  `^(?<core>${NUMBER}\\.${NUMBER}\\.${NUMBER})(?:-(?<pre>${IDENTIFIER}(?:\\.${IDENTIFIER})*))?$`,
);
const DIGITS = /^\d+$/;

interface VersionNumber {
  /** Major, minor and patch. */
  readonly core: readonly Identifier[];
  /** Empty: a stable version. */
  readonly pre: readonly Identifier[];
}
interface Identifier {
  readonly text: string;
  readonly isNumber: boolean;
}

/** Returns why a text is not a valid version number, as the end of a sentence; null: it is valid. */
export function validateSemVer(text: string): string | null {
  if (text.length > SEM_VER_MAX_CHARS) return `is longer than ${SEM_VER_MAX_CHARS} characters`;
  if (text.includes('+')) return 'holds build metadata (+…), which does not order versions; leave it out';
  if (!SEM_VER.test(text)) return 'is not a semantic version; write it like 1.4.0 or 2.0.0-rc.1';
  return null;
}

function parse(text: string): VersionNumber {
  const { core, pre } = SEM_VER.exec(text)?.groups ?? {};
  if (core === undefined) throw new Error(`“${text}” is not a version number`);
  return { core: splitIdentifiers(core), pre: pre === undefined ? [] : splitIdentifiers(pre) };
}

const splitIdentifiers = (list: string): Identifier[] =>
  list.split('.').map((text) => ({ text, isNumber: DIGITS.test(text) }));

/** Orders valid version numbers by precedence: negative when `a` comes before `b`. */
export const comparePrecedence = (a: string, b: string): number => compareNumbers(parse(a), parse(b));

/** Sorts by descending precedence. Parses each number once: a plugin may have thousands of long ones. */
export const sortHighestFirst = <Version extends { readonly semVer: string }>(
  versions: readonly Version[],
): Version[] =>
  versions
    .map((version) => ({ version, number: parse(version.semVer) }))
    .sort((a, b) => compareNumbers(b.number, a.number))
    .map(({ version }) => version);

function compareNumbers(a: VersionNumber, b: VersionNumber): number {
  const byCore = compareLists(a.core, b.core);
  if (byCore !== 0) return byCore;
  // A stable version comes after its pre-releases.
  if (a.pre.length === 0 || b.pre.length === 0) return b.pre.length - a.pre.length;
  return compareLists(a.pre, b.pre);
}

/** A list that begins with the whole other one comes after it. */
function compareLists(a: readonly Identifier[], b: readonly Identifier[]): number {
  for (const [index, left] of a.entries()) {
    const right = b[index];
    if (right === undefined) return 1;
    const order = compareIdentifiers(left, right);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/** Numbers come before words. Without leading zeros, the longer number is the larger one. */
function compareIdentifiers(a: Identifier, b: Identifier): number {
  if (a.isNumber !== b.isNumber) return a.isNumber ? -1 : 1;
  if (a.isNumber && a.text.length !== b.text.length) return a.text.length - b.text.length;
  if (a.text === b.text) return 0;
  return a.text < b.text ? -1 : 1;
}

/** Returns the next number of a kind. A pre-release becomes the version that it precedes, if that is of the kind. */
export function raiseVersion(text: string, kind: 'major' | 'minor' | 'patch'): string {
  const { core, pre } = parse(text);
  const [major = 0n, minor = 0n, patch = 0n] = core.map((identifier) => BigInt(identifier.text));
  const precedes = pre.length > 0;
  if (kind === 'patch') return `${major}.${minor}.${precedes ? patch : patch + 1n}`;
  if (kind === 'minor') return `${major}.${precedes && patch === 0n ? minor : minor + 1n}.0`;
  return `${precedes && minor === 0n && patch === 0n ? major : major + 1n}.0.0`;
}

/** Returns the number itself, or the next patch number that no version has. Even the number of a yanked version is taken. */
export function findFreeNumber(wanted: string, taken: readonly string[]): string {
  let semVer = wanted;
  while (taken.includes(semVer)) semVer = raiseVersion(semVer, 'patch');
  return semVer;
}

interface Numbered {
  readonly semVer: string | null;
  readonly status: string;
}

/** Finds the highest published version; a pre-release only if no stable version is published. */
export function findLatestVersion<Version extends Numbered>(versions: readonly Version[]): Version | null {
  return findLatest(parsePublished(versions))?.version ?? null;
}

/**
 * Finds the published version before a number by precedence; null: it would be the first. Before a stable version, that is the
 * latest of the lower ones: installations that follow Latest do not run its pre-releases.
 */
export function findPreviousVersion<Version extends Numbered>(
  versions: readonly Version[],
  semVer: string,
): Version | null {
  const number = parse(semVer);
  const before = parsePublished(versions).filter((parsed) => compareNumbers(parsed.number, number) < 0);
  return (isStable(number) ? findLatest(before) : findHighest(before))?.version ?? null;
}

interface Parsed<Version> {
  readonly version: Version;
  readonly number: VersionNumber;
}

const isStable = ({ pre }: VersionNumber): boolean => pre.length === 0;

const parsePublished = <Version extends Numbered>(versions: readonly Version[]): Parsed<Version>[] =>
  versions.filter(isPublished).map((version) => ({ version, number: parse(version.semVer) }));

const findLatest = <Version>(versions: readonly Parsed<Version>[]): Parsed<Version> | null =>
  findHighest(versions.filter(({ number }) => isStable(number))) ?? findHighest(versions);

function findHighest<Version>(versions: readonly Parsed<Version>[]): Parsed<Version> | null {
  let highest: Parsed<Version> | null = null;
  for (const candidate of versions) {
    if (highest === null || compareNumbers(candidate.number, highest.number) > 0) highest = candidate;
  }
  return highest;
}

function isPublished<Version extends Numbered>(version: Version): version is Version & { semVer: string } {
  return version.status === 'published' && version.semVer !== null;
}
