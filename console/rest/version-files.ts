/** Reads the files of a version. */

import { FILE_LIST_MAX_BYTES } from '../../sdk/contract/limits.ts';
import type { components } from '../../sdk/rest/schema.d.ts';
import type { Page } from '../../sdk/session/api-types.ts';
import { readBody, rest } from './client.ts';
import { Problem } from './problem.ts';

/** Most text of a version that is read. A draft cannot have more. Characters. */
export const TEXT_MAX_CHARS = FILE_LIST_MAX_BYTES;
/** The largest page. */
const PAGE_FILES = 1_000;
/** How often a draft is read again because another tab saved it meanwhile. */
const READS_MAX = 5;

type VersionFile = components['schemas']['File'];
interface VersionFiles {
  readonly files: readonly VersionFile[];
  /** Whether there are more files than were read, because these have more than `TEXT_MAX_CHARS`. */
  readonly hasMoreFiles: boolean;
}

/** @param versionId or `draft` */
export async function readVersionFiles(id: string, versionId: string): Promise<VersionFiles> {
  for (let reads = 1; ; reads += 1) {
    try {
      return await readPages(id, versionId);
    } catch (error) {
      if (reads === READS_MAX || !isCursorRefused(error)) throw error;
    }
  }
}

async function readPages(id: string, versionId: string): Promise<VersionFiles> {
  const files: VersionFile[] = [];
  let cursor: string | null = '';
  let chars = 0;
  while (cursor !== null && chars <= TEXT_MAX_CHARS) {
    const query = { limit: PAGE_FILES, ...(cursor === '' ? {} : { cursor }) };
    const params = { path: { id, versionId }, query };
    const page: Page<VersionFile> = await readBody(rest.GET('/plugins/{id}/versions/{versionId}/files', { params }));
    files.push(...page.items);
    for (const { contentText } of page.items) chars += contentText?.length ?? 0;
    cursor = page.nextCursor;
  }
  return { files, hasMoreFiles: cursor !== null };
}

/** The draft was saved between two pages. */
const isCursorRefused = (error: unknown): boolean =>
  error instanceof Problem && error.body.errors?.some(({ field }) => field === 'cursor') === true;
