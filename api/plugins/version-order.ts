/** Finds the latest version, and the one before another. Pure. */
import { comparePrecedence, isPreRelease } from '../../sdk/contract/version-numbers.ts';

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
