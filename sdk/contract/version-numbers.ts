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
  readonly core: readonly string[];
  /** Empty: a stable version. */
  readonly pre: readonly string[];
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
  return { core: core.split('.'), pre: pre?.split('.') ?? [] };
}

const isPreRelease = (text: string): boolean => parse(text).pre.length > 0;

/** Orders valid version numbers by precedence: negative when `a` comes before `b`. */
export function comparePrecedence(a: string, b: string): number {
  const [one, other] = [parse(a), parse(b)];
  const byCore = compareLists(one.core, other.core);
  if (byCore !== 0) return byCore;
  // A stable version comes after its pre-releases.
  if (one.pre.length === 0 || other.pre.length === 0) return other.pre.length - one.pre.length;
  return compareLists(one.pre, other.pre);
}

/** A list that begins with the whole other one comes after it. */
function compareLists(a: readonly string[], b: readonly string[]): number {
  for (const [index, left] of a.entries()) {
    const right = b[index];
    if (right === undefined) return 1;
    const order = compareIdentifiers(left, right);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/** Numbers come before words. Without leading zeros, the longer number is the larger one. */
function compareIdentifiers(a: string, b: string): number {
  const isNumber = [DIGITS.test(a), DIGITS.test(b)] as const;
  if (isNumber[0] !== isNumber[1]) return isNumber[0] ? -1 : 1;
  if (isNumber[0] && a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Returns the next number of a kind. A pre-release becomes the version that it precedes, if that is of the kind. */
export function raiseVersion(text: string, kind: 'major' | 'minor' | 'patch'): string {
  const { core, pre } = parse(text);
  const [major = 0n, minor = 0n, patch = 0n] = core.map(BigInt);
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
  const published = versions.filter(isPublished).sort((a, b) => comparePrecedence(a.semVer, b.semVer));
  return published.findLast(({ semVer }) => !isPreRelease(semVer)) ?? published.at(-1) ?? null;
}

/** Finds the published version directly before a number by precedence; null: it would be the first. */
export function findPreviousVersion<Version extends Numbered>(
  versions: readonly Version[],
  semVer: string,
): Version | null {
  const before = versions.filter(isPublished).filter((version) => comparePrecedence(version.semVer, semVer) < 0);
  return before.sort((a, b) => comparePrecedence(a.semVer, b.semVer)).at(-1) ?? null;
}

function isPublished<Version extends Numbered>(version: Version): version is Version & { semVer: string } {
  return version.status === 'published' && version.semVer !== null;
}
