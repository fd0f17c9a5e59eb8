/** Reads the versions of a plugin for its owner, as many as fit into one answer. */
import type { Pool } from 'pg';
import { findVersions, listVersionNumbers, type Version } from '../../db/catalog/versions.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { comparePrecedence } from '../../sdk/contract/version-numbers.ts';

/** Maximum size of the offers of all versions in one response. Bytes of JSON. */
const OFFERS_MAX_BYTES = 4 * MIB;
/** Versions that are read at once: the answer may be full with the first of them. */
const BATCH = 16;

interface NewestVersions {
  /** Highest precedence first. */
  readonly versions: Version[];
  readonly versionsLeftOut: number;
}

/** Reads the versions with the highest precedence, also yanked ones. */
export async function readNewestVersions(
  pool: Pool,
  pluginId: string,
  maxBytes = OFFERS_MAX_BYTES,
): Promise<NewestVersions> {
  const numbers = await listVersionNumbers(pool, pluginId);
  const ids = numbers.sort((a, b) => comparePrecedence(b.semVer, a.semVer)).map(({ id }) => id);
  const versions: Version[] = [];
  let bytes = 0;
  for (let first = 0; first < ids.length; first += BATCH) {
    const batch = ids.slice(first, first + BATCH);
    const found = new Map((await findVersions(pool, batch)).map((version) => [version.id, version]));
    for (const version of batch.flatMap((id) => found.get(id) ?? [])) {
      bytes += Buffer.byteLength(JSON.stringify(version.discovered));
      if (bytes > maxBytes && versions.length > 0) return { versions, versionsLeftOut: ids.length - versions.length };
      versions.push(version);
    }
  }
  return { versions, versionsLeftOut: 0 };
}
