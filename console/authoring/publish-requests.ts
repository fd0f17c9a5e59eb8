/** A package on its way to the service: as a version, or as the draft. */
import { readBody, rest } from '../rest/client.ts';
import { upload } from '../rest/upload.ts';
import type { Dropped } from './package-files.ts';

/** @param onProgress with the part of a zip that is sent, from 0 to 1 */
export async function publishVersion(
  id: string,
  semVer: string,
  dropped: Dropped | null,
  onProgress: (part: number) => void,
): Promise<void> {
  if (dropped === null) return;
  onProgress(0);
  if ('files' in dropped) {
    const body = { semVer, files: [...dropped.files] };
    await rest.POST('/plugins/{id}/versions', { params: { path: { id } }, body });
    return;
  }
  const form = new FormData();
  // Fields go before the file: the service reads as it comes.
  form.set('semVer', semVer);
  form.set('file', dropped.zip);
  await upload(`/api/plugins/${encodeURIComponent(id)}/versions/zip`, form, onProgress);
}

export async function saveDraft(id: string, dropped: Dropped | null) {
  if (dropped === null || 'zip' in dropped) throw new Error('A draft is saved from a folder, not from a zip.');
  const body = { files: [...dropped.files] };
  return readBody(rest.POST('/plugins/{id}/draft', { params: { path: { id } }, body }));
}
