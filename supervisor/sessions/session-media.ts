/** Stores the media files that runtimes upload. */
import { type Media, saveMedia } from '../../db/accounts/media.ts';
import { addBlobBytes, requireRoom } from '../../db/accounts/usage.ts';
import { findSession, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { sniff } from '../host/media.ts';
import type { SessionServices } from './session-services.ts';

/** Stores a file for a session. Equal bytes get the same id. @throws Problem `too_large`, `too_many`, `quota_exceeded`, `not_found` */
export async function putSessionMedia(
  { pool, blobs, mediaQuota }: SessionServices,
  { accountId, id: sessionId }: Session,
  { content, name }: { readonly content: Uint8Array; readonly name: string | null },
): Promise<Media> {
  if (content.byteLength > limits.mediaItemBytes)
    throw new Problem(
      'too_large',
      `The media file has ${content.byteLength} bytes; the maximum is ${limits.mediaItemBytes}.`,
    );
  const mediaType = await sniff(content);
  // The row by which the session holds the file counts as transcripts.
  await requireRoom(pool, accountId, 'transcripts', 0);
  await addBlobBytes(pool, accountId, content.byteLength);
  const blob = await blobs.put(content);
  const saved = await saveMedia(pool, { ...blob, accountId, holder: { sessionId }, mediaType, name }, mediaQuota);
  if (saved) return saved;
  if (!(await findSession(pool, sessionId))) throw new Problem('not_found', 'You have no session with this id.');
  const { bytes, files } = mediaQuota;
  throw new Problem(
    'too_many',
    `An account can have ${bytes} bytes in ${files} media files at most. Clear or delete sessions to make room.`,
  );
}
