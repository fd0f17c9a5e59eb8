/** Stores the media files that runtimes upload, and makes sessions hold the files to which their messages refer. */
import type { z } from 'zod';
import { holdMedia, type Media, saveMedia } from '../../db/accounts/media.ts';
import { addBlobBytes, requireRoom } from '../../db/accounts/usage.ts';
import { findSession, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { limits } from '../../sdk/contract/limits.ts';
import type { attachments } from '../../sdk/contract/payloads.ts';
import { createBadRequest } from '../../service/http/errors.ts';
import { sniff } from '../host/media.ts';
import type { SessionServices } from './session-services.ts';

type Attachments = z.infer<typeof attachments>;

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

/**
 * Makes the session hold the files of a message, so that they exist as long as the session. Gives each file the type that was
 * detected from its bytes.
 *
 * @param missing what happens to files that the account does not have
 * @throws Problem `bad_request` for a file that is refused, `quota_exceeded`
 */
export async function holdAttachments(
  { pool }: SessionServices,
  { accountId, id: sessionId }: Session,
  attached: Attachments,
  missing: 'left out' | 'refused',
): Promise<Attachments> {
  const ids = attached.flatMap(({ mediaId }) => (mediaId === undefined ? [] : [mediaId]));
  if (ids.length === 0) return attached;
  // As in `putSessionMedia`. The rows stay even if the message is refused later.
  await requireRoom(pool, accountId, 'transcripts', 0);
  const held = new Map((await holdMedia(pool, { accountId, sessionId }, ids)).map((media) => [media.id, media]));
  return attached.flatMap((attachment, index) => {
    if (attachment.mediaId === undefined) return [attachment];
    const media = held.get(attachment.mediaId);
    if (media) return [{ ...attachment, mediaType: media.mediaType }];
    if (missing === 'left out') return [];
    const message = 'no media file of the account has this id; upload the file first';
    throw createBadRequest('body', [{ field: `attachments.${index}.mediaId`, message }]);
  });
}
