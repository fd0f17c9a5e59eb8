/** Proposes the number of the next version. */
import { FIRST_VERSION, findFreeNumber, findLatestVersion, raiseVersion } from '../../sdk/contract/version-numbers.ts';

/** A pre-release whose last identifier is a number, such as 2.0.0-beta.1. */
const COUNTED = /^(?<start>[^-]+-(?:.*\.)?)(?<count>\d+)$/;

interface Numbered {
  readonly semVer: string;
  readonly status: string;
}

/**
 * Files of a pre-release get the number of its next one: with that of the next stable version, they would reach all installations
 * that follow Latest.
 *
 * @param madeFrom number of the version that the files were made from. Null: a draft, or unknown
 */
export function proposeNumber(versions: readonly Numbered[], madeFrom: string | null = null): string {
  const taken = versions.map(({ semVer }) => semVer);
  const latest = findLatestVersion(versions);
  if (madeFrom?.includes('-') && madeFrom !== latest?.semVer) return raisePreRelease(madeFrom, taken);
  return findFreeNumber(latest ? raiseVersion(latest.semVer, 'patch') : FIRST_VERSION, taken);
}

function raisePreRelease(semVer: string, taken: readonly string[]): string {
  const { start, count } = COUNTED.exec(semVer)?.groups ?? {};
  const prefix = start ?? `${semVer}.`;
  let next = BigInt(count ?? 0) + 1n;
  while (taken.includes(prefix + next)) next += 1n;
  return prefix + next;
}
