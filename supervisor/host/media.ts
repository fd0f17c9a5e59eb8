/** `host.media`: small files addressed by content, with a detected media type. */
import { isUtf8 } from 'node:buffer';
import type { Pool } from 'pg';
import { findMedia, type MediaQuota, releaseMedia, saveMedia } from '../../db/accounts/media.ts';
import { addBlobBytes } from '../../db/accounts/usage.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { isStorable } from '../../db/postgres/storable-json.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { HostError, type HostHandlers, requireStorable } from './host-call.ts';

type Calls = 'media.put' | 'media.get' | 'media.remove';
/** Bytes given to the type detector: enough for it, and few enough that a crafted file cannot keep it busy. */
const SNIFFED_BYTES = 4_100;
const NO_SUCH = 'no media file has this id';

export const mediaCalls = (pool: Pool, blobs: Blobs, quota: MediaQuota): Pick<HostHandlers, Calls> => ({
  'media.put': async ({ plugin, signal, writes }, { content, name }) => {
    if (content.byteLength > limits.mediaItemBytes)
      throw new HostError(`a media file has ${limits.mediaItemBytes} bytes at most`);
    if (name !== undefined) requireStorable(name, 'a name');
    const mediaType = await sniff(content);
    const { accountId, installationId } = plugin;
    await addBlobBytes(pool, accountId, content.byteLength);
    const blob = await blobs.put(content);
    signal.throwIfAborted();
    const kept = await saveMedia(
      writes,
      { ...blob, accountId, holder: { installationId }, mediaType, name: name ?? null },
      quota,
      signal,
    );
    if (!kept)
      throw new HostError(
        `limit reached: an account keeps at most ${quota.bytes} bytes in ${quota.files} media files; remove some`,
      );
    return { id: kept.id, mediaType: kept.mediaType, sizeBytes: kept.sizeBytes };
  },
  'media.get': async ({ plugin }, { mediaId }) => {
    const found = isStorable(mediaId) ? await findMedia(pool, plugin.accountId, mediaId) : null;
    if (!found) throw new HostError(NO_SUCH);
    return { content: new Uint8Array(await blobs.read(found.sha256)), mediaType: found.mediaType };
  },
  'media.remove': async ({ plugin: { accountId, installationId }, signal, writes }, { mediaId: id }) => {
    const isDropped = isStorable(id) && (await releaseMedia(writes, { accountId, installationId, id }, signal));
    if (!isDropped) throw new HostError(`${NO_SUCH} of this installation`);
    return undefined;
  },
});

/** Detects the type of a file from its bytes; plugins cannot declare it. */
export async function sniff(content: Uint8Array): Promise<string> {
  const { fileTypeFromBuffer } = await import('file-type');
  const found = await fileTypeFromBuffer(content.subarray(0, SNIFFED_BYTES)).catch(() => undefined);
  if (found) return found.mime;
  return isPlainText(content) ? 'text/plain' : 'application/octet-stream';
}

/** Whether bytes are UTF-8 without U+0000. */
export const isPlainText = (content: Uint8Array): boolean => isUtf8(content) && !content.includes(0);
