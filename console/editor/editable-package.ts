/** Loads a package for the editor: the files of the draft, or of the newest version, or a template. */
import type { TextFile } from '../authoring/package-files.ts';
import { readBody, rest } from '../rest/client.ts';
import type { Plugin } from '../rest/plugins.ts';
import { readVersionFiles, TEXT_MAX_CHARS } from '../rest/version-files.ts';

const TOO_LARGE = `The package has more than ${TEXT_MAX_CHARS / 1_048_576} MiB of text, so it cannot be a draft. Edit its files on your computer and publish a zip.`;

export interface EditablePackage {
  readonly displayName: string;
  readonly slug: string;
  readonly files: readonly TextFile[];
  /** Hash of the draft. Null: the plugin has none. */
  readonly draftSha256: string | null;
  /** Binary files, which a draft cannot contain, and text that is too long to be read. */
  readonly skippedFiles: readonly string[];
}

/** @throws Error for a package with more text than a draft can have: saving a part of it would delete the rest */
export async function readEditablePackage(id: string): Promise<EditablePackage> {
  const plugin = await readBody(rest.GET('/plugins/{id}', { params: { path: { id } } }));
  const newest = plugin.versions.find(({ status }) => status === 'published');
  const versionId = plugin.draft ? 'draft' : newest?.id;
  const { files: found, hasMoreFiles } =
    versionId === undefined ? { files: [], hasMoreFiles: false } : await readVersionFiles(id, versionId);
  if (hasMoreFiles) throw new Error(TOO_LARGE);
  const files = found.flatMap(({ path, contentText }) => (contentText === null ? [] : [{ path, contentText }]));
  return {
    displayName: plugin.displayName,
    slug: plugin.slug,
    draftSha256: plugin.draft?.sourceSha256 ?? null,
    files: found.length === 0 ? firstFiles(plugin) : files,
    skippedFiles: found.filter(({ contentText }) => contentText === null).map(({ path }) => path),
  };
}

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
