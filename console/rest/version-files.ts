/** Reads the files of a version. */
import { readBody, rest } from './client.ts';
import type { components } from './schema.d.ts';

/** Enough for the longest draft, which has 16 MiB of text. */
const PAGES_MAX = 16;

interface VersionFiles {
  readonly files: readonly components['schemas']['File'][];
  /** Whether there are more files than were read. */
  readonly hasMoreFiles: boolean;
}

/** @param versionId or `draft` */
export async function readVersionFiles(id: string, versionId: string): Promise<VersionFiles> {
  const files: components['schemas']['File'][] = [];
  let cursor: string | null = '';
  for (let pages = 0; cursor !== null && pages < PAGES_MAX; pages++) {
    const params = { path: { id, versionId }, query: cursor === '' ? {} : { cursor } };
    const page: { readonly items: components['schemas']['File'][]; readonly nextCursor: string | null } =
      await readBody(rest.GET('/plugins/{id}/versions/{versionId}/files', { params }));
    files.push(...page.items);
    cursor = page.nextCursor;
  }
  return { files, hasMoreFiles: cursor !== null };
}
