/** Runs a hook on a message, and makes the message's session hold its files. */
import type { Pool } from 'pg';
import type { z } from 'zod';
import { holdMedia } from '../../db/accounts/media.ts';
import { requireRoom } from '../../db/accounts/usage.ts';
import type { Queryable } from '../../db/postgres/rows.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { type attachments, TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import { createBadRequest } from '../../service/http/errors.ts';
import type { ChainState, Fields } from './chain.ts';
import type { HookRequest, PluginPort } from './plugin-port.ts';

type Attachments = z.infer<typeof attachments>;

/** A hook's result with the type of its context. */
export type HookResult<Context extends Fields> = ChainState & { readonly context: Context };

export interface MessageContext extends Fields {
  readonly message: { readonly text: string; readonly attachments: Attachments };
}

export type MessageHook = 'middleware.inboundMessage' | 'middleware.outboundMessage';
export const isMessageHook = (hook: HookName): hook is MessageHook =>
  hook === 'middleware.inboundMessage' || hook === 'middleware.outboundMessage';

export interface MessageOptions {
  /** Characters that the text may have. Default: as the hook's schema allows. */
  readonly textMaxChars?: number | undefined;
  /** Whether to refuse a request with a file that the account does not have. Default: such files are left out, as are those of plugins. */
  readonly requiresFiles?: boolean;
}
interface MessageRequest<Context extends MessageContext>
  extends MessageOptions,
    Omit<HookRequest, 'accountId' | 'findFault' | 'completeChange'> {
  readonly hook: MessageHook;
  readonly session: Session;
  readonly context: Context;
}
interface MessageHookDeps {
  readonly pool: Pool;
  readonly runHook: PluginPort['runHook'];
}

/**
 * Runs a hook on a message, and makes the session hold the message's files, so that they exist as long as the session. A file that
 * a plugin adds is held before the next plugin runs. Each file gets the type that was detected from its bytes. Files that the
 * account does not have are left out.
 *
 * @throws Problem `bad_request` for a missing file if `requiresFiles` is set, `quota_exceeded` for a message with files
 */
export async function judgeMessage<Context extends MessageContext>(
  { pool, runHook }: MessageHookDeps,
  { requiresFiles = false, textMaxChars = TEXT_MAX_CHARS, ...request }: MessageRequest<Context>,
): Promise<HookResult<Context>> {
  const { session } = request;
  const required = requiresFiles ? request.context.message.attachments : [];
  const holdFiles = async (given: Context): Promise<Context> => {
    const attachments = await holdAttachments(pool, session, given.message.attachments, required);
    return { ...given, message: { ...given.message, attachments } };
  };
  const findFault = (changed: Fields): string | null => {
    const { length } = (changed as Context).message.text;
    if (length <= textMaxChars) return null;
    return `message.text has ${length} characters, and the message has room for ${textMaxChars}`;
  };
  const completeChange = (changed: Fields): Promise<Context> => holdFiles(changed as Context);
  const context = await holdFiles(request.context);
  const result = await runHook({ ...request, accountId: session.accountId, context, findFault, completeChange });
  if (result.cancelled) return { ...result, context: result.context as Context };
  // Holds the files again, because the session may have been cleared while the plugins ran.
  return { ...result, context: await completeChange(result.context) };
}

/** The ids of the files that are kept here. */
export const listMediaIds = (attached: Attachments): string[] => attached.flatMap(({ mediaId }) => mediaId ?? []);

/**
 * Makes the session hold the files of a message, so that they exist as long as the session. Gives each file the type that was
 * detected from its bytes. Leaves out files that the account does not have.
 *
 * @param db in the transaction that adds the message, no clear of the session comes between
 * @param required attachments of the request, of which no file may be left out
 * @throws Problem `bad_request` for a missing file that is required, `quota_exceeded`
 */
export async function holdAttachments(
  db: Queryable,
  { accountId, id: sessionId }: Pick<Session, 'accountId' | 'id'>,
  attached: Attachments,
  required: Attachments = [],
): Promise<Attachments> {
  const ids = listMediaIds(attached);
  if (ids.length === 0) return attached;
  // The row by which the session holds a file counts as transcripts. The rows stay even if the message is refused later.
  await requireRoom(db, accountId, 'transcripts', 0);
  const held = new Map((await holdMedia(db, { accountId, sessionId }, ids)).map((media) => [media.id, media]));
  return attached.flatMap((attachment) => {
    if (attachment.mediaId === undefined) return [attachment];
    const media = held.get(attachment.mediaId);
    if (media) return [{ ...attachment, mediaType: media.mediaType }];
    const index = required.findIndex(({ mediaId }) => mediaId === attachment.mediaId);
    if (index === -1) return [];
    const message = 'no media file of the account has this id; upload the file first';
    throw createBadRequest('body', [{ field: `attachments.${index}.mediaId`, message }]);
  });
}
