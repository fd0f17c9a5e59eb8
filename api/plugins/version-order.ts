/** Validates version numbers and finds the latest version. Pure. */
import { compare, parse } from 'semver';

/** Maximum length of a version number. Characters. */
export const SEM_VER_MAX_CHARS = 100;

interface Numbered {
  readonly semVer: string | null;
  readonly status: string;
}

/** Returns why a text is not a valid version number, as the end of a sentence; null: it is valid. */
export function validateSemVer(text: string): string | null {
  if (text.length > SEM_VER_MAX_CHARS) return `is longer than ${SEM_VER_MAX_CHARS} characters`;
  if (text.includes('+')) return 'holds build metadata (+…), which does not order versions; leave it out';
  // The library accepts a leading v, `=` and blanks and removes them, so two texts could be the same version.
  const parsed = parse(text);
  if (!parsed || parsed.version !== text) return 'is not a semantic version; write it like 1.4.0 or 2.0.0-rc.1';
  return null;
}

/** Orders version numbers by SemVer precedence: negative when `a` comes before `b`. */
export const comparePrecedence = (a: string, b: string): number => compare(a, b);

/** Finds the highest published version; a pre-release only if no stable version is published. */
export function findLatestVersion<Version extends Numbered>(versions: readonly Version[]): Version | null {
  const published = versions.filter(isPublished).sort((a, b) => compare(a.semVer, b.semVer));
  const stable = published.filter((version) => parse(version.semVer)?.prerelease.length === 0);
  return stable.at(-1) ?? published.at(-1) ?? null;
}

/** Finds the published version directly before a number by precedence; null: it would be the first. */
export function findPreviousVersion<Version extends Numbered>(
  versions: readonly Version[],
  semVer: string,
): Version | null {
  const before = versions.filter(isPublished).filter((version) => compare(version.semVer, semVer) < 0);
  return before.sort((a, b) => compare(a.semVer, b.semVer)).at(-1) ?? null;
}

function isPublished<Version extends Numbered>(version: Version): version is Version & { semVer: string } {
  return version.status === 'published' && version.semVer !== null;
}
