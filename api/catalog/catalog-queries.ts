/** Reads the catalog as one account sees it. */
import { countFittingVersions, pageCatalog } from '../../db/catalog/catalog.ts';
import { findPluginBySlug } from '../../db/catalog/plugins.ts';
import { searchCatalog } from '../../db/catalog/search.ts';
import { findVersion, listPublishedVersions, listVersionSummaries, readReadme } from '../../db/catalog/versions.ts';
import {
  countInstallations,
  findInstallationIds,
  findInstallationOfPlugin,
} from '../../db/installations/installations.ts';
import { mapPage, type Page } from '../../db/postgres/cursors.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { requireVisiblePlugin } from '../plugins/plugin-access.ts';
import type { Services } from '../services.ts';
import type { CatalogDetail, CatalogRow } from './catalog-resource.ts';

/** Number of versions in an entry. Older ones can still be pinned by id. */
const VERSIONS_SHOWN = 100;

export async function readCatalog(
  { pool }: Pick<Services, 'pool'>,
  caller: Caller,
  query: { limit: number; cursor?: string | undefined; q?: string | undefined },
): Promise<Page<CatalogRow>> {
  const found = query.q?.trim()
    ? await searchCatalog(pool, caller.id, query.q, query)
    : await pageCatalog(pool, caller.id, query);
  const ids = found.items.map((plugin) => plugin.id);
  const latestIds = found.items.flatMap((plugin) => plugin.latestVersionId ?? []);
  const [versions, installed, counts] = await Promise.all([
    // Without what the versions offer: a page of schemas would have 256 MB.
    listVersionSummaries(pool, latestIds),
    findInstallationIds(pool, caller.id, ids),
    countInstallations(pool, ids),
  ]);
  const byId = new Map(versions.map((version) => [version.id, version]));
  return mapPage(found, (plugin) => ({
    plugin,
    latest: byId.get(plugin.latestVersionId ?? '') ?? null,
    installationId: installed.get(plugin.id) ?? null,
    installCount: counts.get(plugin.id) ?? 0,
  }));
}

/** Reads one entry with its readme. @throws Problem `not_found` */
export async function readCatalogEntry(
  { pool }: Pick<Services, 'pool'>,
  caller: Caller,
  slug: string,
): Promise<CatalogDetail> {
  const found = await findPluginBySlug(pool, slug);
  const installation = found ? await findInstallationOfPlugin(pool, caller.id, found.id) : null;
  const plugin = requireVisiblePlugin(found, caller, { installed: installation !== null, access: 'read' });
  const latest = plugin.latestVersionId === null ? null : await findVersion(pool, plugin.latestVersionId);
  const counts = await countInstallations(pool, [plugin.id]);
  const readme = latest ? await readReadme(pool, latest.id) : '';
  const fitting = await countFittingVersions(pool, plugin.id, VERSIONS_SHOWN);
  const newest = await listPublishedVersions(pool, plugin.id, fitting + 1);
  return {
    plugin,
    latest,
    installationId: installation?.id ?? null,
    installCount: counts.get(plugin.id) ?? 0,
    readme,
    versions: newest.slice(0, fitting),
    versionsTruncated: newest.length > fitting,
  };
}
