/** Reads the versions of a plugin for its owner, as many as fit into one answer. */
import type { Pool } from 'pg';
import { findVersions, listVersionNumbers } from '../../db/catalog/versions.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { sortHighestFirst } from '../../sdk/contract/version-numbers.ts';
import { LoopSlices, waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import { type PluginContents, showVersion } from './plugin-resource.ts';

/** Maximum size of the offers of all versions in one response, which is written in one piece. Bytes of JSON. */
const OFFERS_MAX_BYTES = MIB;
/** Versions that are read at once: the answer may be full with the first of them. */
const BATCH = 16;

type NewestVersions = Pick<PluginContents, 'versions' | 'leftOutVersions'>;

/**
 * Reads the versions with the highest precedence, also yanked ones.
 *
 * @param loopKey whose work it is, such as an account
 */
export async function readNewestVersions(
  pool: Pool,
  pluginId: string,
  loopKey: string,
  maxBytes = OFFERS_MAX_BYTES,
): Promise<NewestVersions> {
  const listed = await listVersionNumbers(pool, pluginId);
  // The sort of all numbers a plugin may have takes milliseconds.
  await waitForLoopTurn(loopKey);
  const numbers = sortHighestFirst(listed);
  const slices = new LoopSlices(loopKey);
  const versions: NewestVersions['versions'] = [];
  let bytes = 0;
  for (let first = 0; first < numbers.length; first += BATCH) {
    const batch = numbers.slice(first, first + BATCH).map(({ id }) => id);
    const found = new Map((await findVersions(pool, batch)).map((version) => [version.id, version]));
    for (const version of batch.flatMap((id) => found.get(id) ?? [])) {
      await slices.pauseWhenOver();
      bytes += Buffer.byteLength(JSON.stringify(version.discovered));
      if (bytes > maxBytes && versions.length > 0) return { versions, leftOutVersions: numbers.slice(versions.length) };
      versions.push(showVersion(version));
    }
  }
  return { versions, leftOutVersions: [] };
}
