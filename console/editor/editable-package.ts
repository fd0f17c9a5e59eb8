/** Loads a package for the editor: the files of the draft or of a version, or a template. */
import { findLatestVersion } from '../../sdk/contract/version-numbers.ts';
import type { TextFile } from '../authoring/package-files.ts';
import { readBody, rest } from '../rest/client.ts';
import type { Plugin } from '../rest/plugins.ts';
import { readVersionFiles, TEXT_MAX_CHARS } from '../rest/version-files.ts';
import { formatBytes } from '../style/format-bytes.ts';
import { chooseSource, DRAFT, listLeftOut, listSources, type Source } from './source.ts';

const TOO_LARGE = `The package has more than ${formatBytes(TEXT_MAX_CHARS)} of text, so it cannot be a draft. Edit its files on your computer and publish a zip.`;

export interface EditablePackage {
  readonly displayName: string;
  readonly slug: string;
  readonly files: readonly TextFile[];
  /** What these files are. Null: a template, because nothing is stored yet. */
  readonly source: Source | null;
  /** Hash of the draft. Null: the plugin has none. */
  readonly draftSha256: string | null;
  /** Whether `files` are all files of the source. */
  readonly isComplete: boolean;
  /** Binary files, which a draft cannot contain, and text that is too long to be read. If a draft is loaded, also those of Latest. */
  readonly leftOutFiles: readonly string[];
}

/**
 * @param sourceId `draft` or the id of a version. Default: the draft, or Latest if there is no draft
 * @throws Error for a package with more text than a draft can have, of which saving a part would delete the rest, and for a version
 * that was yanked meanwhile or a draft that the plugin does not have
 */
export async function readEditablePackage(id: string, sourceId?: string): Promise<EditablePackage> {
  const plugin = await readBody(rest.GET('/plugins/{id}', { params: { path: { id } } }));
  const chosen = listSources(plugin).find((source) => source.id === sourceId);
  if (sourceId !== undefined && !chosen) throw new Error(describeMissing(sourceId));
  const source = chosen ?? chooseSource(plugin);
  const { files: found, hasMoreFiles } = source
    ? await readVersionFiles(id, source.id)
    : { files: [], hasMoreFiles: false };
  if (hasMoreFiles) throw new Error(TOO_LARGE);
  const latest = findLatestVersion(plugin.versions);
  const ofLatest = source?.id === DRAFT && latest ? (await readVersionFiles(id, latest.id)).files : [];
  const files = found.flatMap(({ path, contentText }) => (contentText === null ? [] : [{ path, contentText }]));
  return {
    displayName: plugin.displayName,
    slug: plugin.slug,
    draftSha256: plugin.draft?.sourceSha256 ?? null,
    source,
    files: found.length === 0 ? firstFiles(plugin) : files,
    isComplete: files.length === found.length,
    leftOutFiles: listLeftOut(found, ofLatest),
  };
}

const describeMissing = (sourceId: string): string =>
  sourceId === DRAFT
    ? 'The plugin has no draft. Load a version.'
    : 'The version was yanked meanwhile. Load another one.';

const firstFiles = ({ displayName, description }: Pick<Plugin, 'displayName' | 'description'>): TextFile[] => [
  {
    path: 'readme.md',
    contentText: `---
name: ${JSON.stringify(displayName)}
description: ${JSON.stringify(description || 'Says what the plugin does, in one line')}
---
A description for people who read the catalog.
`,
  },
  {
    path: 'index.ts',
    contentText: `middleware.systemPrompt = (ctx) => {
  host.log('a prompt for ' + ctx.agent.name);
  return ctx.systemPrompt + '\\n\\nAnswer in one sentence.';
};
`,
  },
];
