/** The representations of plugins and versions. */

import { z } from 'zod';
import type { Plugin } from '../../db/catalog/plugins.ts';
import type { Version, VersionNumber } from '../../db/catalog/versions.ts';
import type { VersionRollback } from '../../db/installations/updates.ts';
import type { Page } from '../../db/postgres/cursors.ts';
import { nameFields } from '../../sdk/contract/manifest.ts';
import { anyJson, timestamp } from '../../service/http/schemas.ts';
import type { BuiltVersion } from './publishing.ts';

const capabilities = z.array(z.string());

/** In every resource that shows a plugin to its users. */
export const deprecationMessage = z
  .string()
  .nullable()
  .describe(
    'Why the owner removed the plugin from the catalog. Installations keep working and show it. Null: it was not removed, or no message was given.',
  );

/** Read from the database, where a newer release may have stored more hooks and events; unknown ones are dropped. */
export const discovered = z
  .object({
    commands: z.array(z.object({ name: z.string(), description: z.string(), source: z.enum(['code', 'prompt']) })),
    skills: z.array(z.object({ name: z.string(), description: z.string() })),
    middleware: z.array(z.string()),
    lifecycle: z.array(z.string()),
    tools: z.array(z.object({ name: z.string(), description: z.string(), parameters: z.record(z.string(), anyJson) })),
    providers: z.array(
      z.object({ name: z.string(), models: z.array(z.looseObject({ id: z.string(), name: z.string() })) }),
    ),
    channel: z.object({ receive: z.boolean(), send: z.boolean(), handshake: z.boolean() }).nullable(),
  })
  .meta({ id: 'Discovered', description: 'The offers of a version.' });
/** Selects the fields of a row that its owner sees. */
export const versionResource = z
  .object({
    id: z.string(),
    semVer: z.string(),
    status: z.enum(['published', 'yanked']),
    sourceSha256: z.string(),
    bundleSha256: z.string(),
    sizeBytes: z.number(),
    capabilities,
    addedCapabilities: capabilities,
    discovered,
    settings: z.array(z.string()).describe('Names of its settings.'),
    requiredFields: z
      .array(z.string())
      .describe('Names of the settings without a default and of the secrets that an installation needs to run.'),
    createdAt: timestamp,
    yankedAt: timestamp.nullable(),
  })
  .meta({ id: 'Version', description: 'A published version. Only its status can change.' });
const versionNumber = versionResource
  .pick({ id: true, semVer: true, status: true })
  .meta({ id: 'VersionNumber', description: 'A published version without its offers.' });
const warnings = z
  .array(z.string())
  .describe('Likely mistakes, such as a declared capability or a file that nothing uses. They prevent nothing.');
export const publishedVersion = versionResource
  .extend({ warnings })
  .meta({ id: 'PublishedVersion', description: 'A version that was just published.' });
/** Selects the fields of a row that its owner sees. */
const plugin = z.object({
  id: z.string(),
  slug: z.string(),
  displayName: z.string(),
  description: z.string(),
  visibility: z.enum(['private', 'listed', 'delisted']),
  tier: z.enum(['community', 'verified']),
  owner: z.object({ id: z.string(), name: z.string() }),
  deprecationMessage,
  /** Reason of the operator who blocked it everywhere. */
  blockedReason: z.string().nullable(),
  createdAt: timestamp,
  updatedAt: timestamp,
});
export const fileResource = z
  .strictObject({
    path: z.string(),
    contentText: z.string().nullable(),
    sizeBytes: z.number(),
    sha256: z.string(),
  })
  .meta({
    id: 'File',
    description: 'A file of a version. contentText is null for a binary file, or one too long to send.',
  });
const draft = z.strictObject({ sourceSha256: z.string(), savedAt: timestamp, discovered });
const draftResource = draft.meta({ id: 'Draft', description: 'The saved draft of a plugin.' });
export const pluginResource = plugin
  .extend({ draft: draftResource.nullable().optional().describe('Null: the plugin has none. Left out in lists.') })
  .meta({ id: 'Plugin', description: 'A plugin as its owner sees it.' });
export const savedDraft = draft
  .extend({ warnings })
  .meta({ id: 'SavedDraft', description: 'A draft that was just saved.' });
const rollback = z
  .strictObject({
    versionId: z.string(),
    semVer: z.string().nullable().describe('Null: a draft.'),
    cause: z.enum(['crashed', 'memory', 'killed', 'not_started']).describe('`killed`: it did not answer in time.'),
    count: z.int().describe('Installations that returned to the previous version.'),
    lastAt: timestamp,
  })
  .meta({ id: 'VersionRollback', description: 'A version that crash-looped in its first ten minutes.' });
export const pluginDetail = plugin
  .extend({
    versions: z.array(versionResource).describe('Highest precedence first.'),
    versionsLeftOut: z
      .int()
      .describe('Number of versions with a lower precedence that are left out, because the others offer 1 MiB.'),
    leftOutVersions: z.array(versionNumber).describe('Those versions. Highest precedence first.'),
    rollbacks: z.array(rollback).describe('Newest first.'),
    draft: draftResource.nullable(),
    files: z.array(fileResource).optional(),
    hasMoreFiles: z.boolean().optional().describe('Whether files are left out, because the others fill a page.'),
  })
  .meta({ id: 'PluginDetail', description: 'A plugin with its versions.' });
export type FileResource = z.output<typeof fileResource>;

export const getTier = (plugin: Plugin): 'community' | 'verified' => (plugin.ownerVerified ? 'verified' : 'community');

/** Represents a plugin in lists, where drafts are left out: those of a page may offer hundreds of megabytes. */
export function showPlugin(plugin: Plugin): z.output<typeof pluginResource> {
  return { ...plugin, tier: getTier(plugin), owner: { id: plugin.ownerId, name: plugin.ownerName } };
}

export const showPluginWithDraft = (plugin: Plugin, draft: Version | null) => ({
  ...showPlugin(plugin),
  draft: draft ? showDraft(draft) : null,
});

/** Represents a published version. @throws Error for a draft, also a replaced one */
export function showVersion(version: Version): z.output<typeof versionResource> {
  const { semVer, status } = version;
  if (semVer === null || status === 'draft' || status === 'replaced')
    throw new Error(`version ${version.id} is a draft`);
  return {
    ...version,
    semVer,
    status,
    capabilities: [...version.capabilities],
    addedCapabilities: [...version.addedCapabilities],
    discovered: discovered.parse(version.discovered),
    ...nameFields(version.manifest),
  };
}

export interface PluginContents {
  /** Highest precedence first. */
  readonly versions: z.output<typeof versionResource>[];
  /** The versions that did not fit into the answer. Highest precedence first. */
  readonly leftOutVersions: readonly VersionNumber[];
  readonly draft: Version | null;
  readonly rollbacks: readonly VersionRollback[];
  readonly files: Page<FileResource> | null;
}

export function showPublished({ version, warnings }: BuiltVersion): z.output<typeof publishedVersion> {
  return { ...showVersion(version), warnings: [...warnings] };
}

export function showPluginDetail(
  plugin: Plugin,
  { versions, leftOutVersions, draft, rollbacks, files }: PluginContents,
): z.output<typeof pluginDetail> {
  return {
    ...showPluginWithDraft(plugin, draft),
    versions,
    versionsLeftOut: leftOutVersions.length,
    leftOutVersions: leftOutVersions.map((version) => versionNumber.parse(version)),
    rollbacks: [...rollbacks],
    ...(files ? { files: files.items, hasMoreFiles: files.nextCursor !== null } : {}),
  };
}

export function showDraft(draft: Version): z.output<typeof draftResource> {
  return {
    sourceSha256: draft.sourceSha256,
    savedAt: draft.createdAt,
    discovered: discovered.parse(draft.discovered),
  };
}
