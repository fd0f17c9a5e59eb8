/** Loads a package for the editor: the files of the draft, or of the newest version, or a template. */
import type { TextFile } from '../authoring/package-files.ts';
import { readBody, rest } from '../rest/client.ts';
import { readVersionFiles } from '../rest/version-files.ts';

export interface EditablePackage {
  readonly displayName: string;
  readonly slug: string;
  readonly files: readonly TextFile[];
  /** Binary files, which a draft cannot contain, and text that is too long to be read. */
  readonly skippedFiles: readonly string[];
  /** Whether the package has so many files that the last ones were not read. */
  readonly hasMoreFiles: boolean;
}

export async function readEditablePackage(id: string): Promise<EditablePackage> {
  const plugin = await readBody(
    rest.GET('/plugins/{id}', { params: { path: { id }, query: { includeFiles: 'true' } } }),
  );
  const { files: found, hasMoreFiles } = plugin.draft
    ? await readVersionFiles(id, 'draft')
    : { files: plugin.files ?? [], hasMoreFiles: plugin.hasMoreFiles ?? false };
  const files = found.flatMap(({ path, contentText }) => (contentText === null ? [] : [{ path, contentText }]));
  return {
    displayName: plugin.displayName,
    slug: plugin.slug,
    files: found.length === 0 ? firstFiles(plugin.displayName) : files,
    skippedFiles: found.filter(({ contentText }) => contentText === null).map(({ path }) => path),
    hasMoreFiles,
  };
}

const firstFiles = (name: string): TextFile[] => [
  {
    path: 'readme.md',
    contentText: `---
name: ${JSON.stringify(name)}
description: Says what the plugin does, in one line
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
