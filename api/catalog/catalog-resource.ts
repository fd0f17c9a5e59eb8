/** The representation of a plugin in the catalog. */

import { z } from 'zod';
import type { Plugin } from '../../db/catalog/plugins.ts';
import type { PublishedVersion, Version, VersionSummary } from '../../db/catalog/versions.ts';
import { timestamp } from '../../service/http/schemas.ts';
import { LoopSlices } from '../../service/timing/loop-turns.ts';
import { configurationFields, reachRow, showFields, showReach } from '../plugins/manifest-resource.ts';
import { deprecationMessage, discovered, getTier } from '../plugins/plugin-resource.ts';

/** An entry of the list, without readme and other long fields. The schema removes fields of a plugin that other accounts must not see. */
const summary = z.object({
  slug: z.string(),
  displayName: z.string(),
  description: z.string(),
  visibility: z.enum(['private', 'listed', 'delisted']),
  tier: z.enum(['community', 'verified']),
  author: z.strictObject({ name: z.string(), verified: z.boolean() }),
  latest: z.strictObject({ versionId: z.string(), semVer: z.string(), publishedAt: timestamp }).nullable(),
  capabilities: z.array(z.string()),
  reach: z.array(reachRow),
  installed: z.boolean(),
  installationId: z.string().nullable(),
  installCount: z.number(),
  deprecationMessage,
  /** Reason of the operator; null: not blocked. Only its owner and its users see a blocked plugin. */
  blockedReason: z.string().nullable(),
  updatedAt: timestamp,
});
export const catalogSummary = summary.meta({ id: 'CatalogSummary', description: 'A plugin in the catalog.' });
export const catalogEntry = summary
  .extend({
    readme: z.string(),
    discovered: discovered.nullable(),
    configuration: configurationFields.describe('Of the latest version.'),
    versions: z
      .array(
        z.strictObject({
          versionId: z.string(),
          semVer: z.string(),
          publishedAt: timestamp,
          /** The capabilities and fields of this version, for users who pin it. */
          reach: z.array(reachRow),
          configuration: configurationFields,
        }),
      )
      .describe('The versions that can be pinned, newest first, at most 100. Large ones end the list early.'),
    versionsTruncated: z.boolean().describe('Whether older versions exist, which `versions` leaves out.'),
  })
  .meta({ id: 'CatalogEntry', description: 'A plugin in the catalog, with its readme and all it offers.' });

/** A plugin with the caller's installation of it. */
export interface CatalogRow {
  readonly plugin: Plugin;
  readonly latest: VersionSummary | null;
  readonly installationId: string | null;
  readonly installCount: number;
}

export function showSummary(row: CatalogRow): z.output<typeof catalogSummary> {
  const { plugin, latest, installationId, installCount } = row;
  return {
    ...plugin,
    tier: getTier(plugin),
    author: { name: plugin.ownerName, verified: plugin.ownerVerified },
    latest: latest?.semVer ? { versionId: latest.id, semVer: latest.semVer, publishedAt: latest.createdAt } : null,
    capabilities: [...(latest?.capabilities ?? [])],
    reach: showReach(latest?.capabilities ?? []),
    installed: installationId !== null,
    installationId,
    installCount,
  };
}

export interface CatalogDetail extends CatalogRow {
  readonly latest: Version | null;
  readonly readme: string;
  /** Newest first, without yanked versions. */
  readonly versions: readonly PublishedVersion[];
  /** Whether older ones are left out. */
  readonly versionsTruncated: boolean;
}

/** @param loopKey names the owner of the work, such as an account, for a fair share of the event loop */
export async function showEntry(entry: CatalogDetail, loopKey: string): Promise<z.output<typeof catalogEntry>> {
  const { latest, readme } = entry;
  const slices = new LoopSlices(loopKey);
  const versions: z.output<typeof catalogEntry>['versions'] = [];
  for (const { id, semVer, createdAt, capabilities, manifest } of entry.versions) {
    await slices.pauseWhenOver();
    versions.push({
      versionId: id,
      semVer,
      publishedAt: createdAt,
      reach: showReach(capabilities),
      configuration: showFields(manifest),
    });
  }
  return {
    ...showSummary(entry),
    readme,
    discovered: latest ? discovered.parse(latest.discovered) : null,
    configuration: showFields(latest?.manifest ?? null),
    versions,
    versionsTruncated: entry.versionsTruncated,
  };
}
