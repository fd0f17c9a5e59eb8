/** Sends a package to the service as a version or as a draft. */

import type { components } from '../../sdk/rest/schema.d.ts';
import { readEditablePackage } from '../editor/editable-package.ts';
import { DRAFT } from '../editor/source.ts';
import { readBody, rest } from '../rest/client.ts';
import { Problem } from '../rest/problem.ts';
import { uploadForm } from '../rest/upload.ts';
import { checkReadable, type Dropped, hasSameFiles, type TextFile } from './package-files.ts';

type Published = components['schemas']['PublishedVersion'];

const NOT_CHOSEN =
  'No package is chosen. Choose the folder or zip, again after each upload: its files are read when you choose it.';

/**
 * @param onProgress called with the fraction of a zip that was sent
 * @returns the version, with warnings
 */
export async function publishVersion(
  id: string,
  semVer: string,
  dropped: Dropped | null,
  onProgress: (part: number) => void,
): Promise<Published> {
  if (dropped === null) throw new Error(NOT_CHOSEN);
  onProgress(0);
  if ('files' in dropped) {
    const body = { semVer, files: [...dropped.files] };
    return readBody(rest.POST('/plugins/{id}/versions', { params: { path: { id } }, body }));
  }
  await checkReadable(dropped.zip);
  const form = new FormData();
  // The service reads the form as a stream and needs the fields before the file.
  form.set('semVer', semVer);
  form.set('file', dropped.zip);
  return (await uploadForm(`/api/plugins/${encodeURIComponent(id)}/versions/zip`, form, onProgress)) as Published;
}

/** What a save of a draft replaces. */
interface Replaced {
  /** Hash of the draft that the user edited. Null: the plugin had none. Undefined: the files replace any draft. */
  readonly replaces: string | null | undefined;
  /** What was sent since by saves that got no response. Any of them may be the draft by now, and is replaced, too. */
  readonly unanswered: readonly Dropped[];
}

export async function saveDraft(id: string, dropped: Dropped | null, { replaces, unanswered }: Replaced) {
  const files = requireFiles(dropped);
  try {
    return await postDraft(id, files, replaces);
  } catch (error) {
    if (unanswered.length === 0 || !(error instanceof Problem) || error.code !== 'draft_changed') throw error;
    const stored = await readEditablePackage(id, DRAFT);
    const isOwn = unanswered.some((sent) => hasSameFiles(requireFiles(sent), stored.files));
    if (!isOwn || !stored.isComplete) throw error;
    return postDraft(id, files, stored.draftSha256);
  }
}

function requireFiles(dropped: Dropped | null): readonly TextFile[] {
  if (dropped === null) throw new Error(NOT_CHOSEN);
  if ('zip' in dropped) throw new Error('A draft is saved from a folder, not from a zip.');
  return dropped.files;
}

function postDraft(id: string, files: readonly TextFile[], replaces: string | null | undefined) {
  const body = { files: [...files], ...(replaces === undefined ? {} : { replaces }) };
  return readBody(rest.POST('/plugins/{id}/draft', { params: { path: { id } }, body }));
}
