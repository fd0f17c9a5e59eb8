/** Runs hooks for a session. */
import type { z } from 'zod';
import type { Session } from '../../db/sessions/sessions.ts';
import type { Trigger } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { type attachments, TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import { type ChainState, type Fields, formatCancel } from '../calls/chain.ts';
import { runHook } from '../calls/hook-runner.ts';
import type { HookRequest } from '../calls/plugin-port.ts';
import { holdAttachments } from './session-media.ts';
import type { SessionServices } from './session-services.ts';

type HookOptions = Pick<
  HookRequest,
  'noticeId' | 'findFault' | 'completeChange' | 'excludedInstallationId' | 'isRepeated'
>;

export function runSessionHook(
  services: SessionServices,
  session: Session,
  hook: HookName,
  context: Fields,
  trigger: Trigger,
  options: HookOptions = {},
): Promise<ChainState> {
  return runHook(services, { ...options, hook, accountId: session.accountId, session, context, trigger });
}

/** A hook's result with the type of its context. */
type HookResult<Context extends Fields> = ChainState & { readonly context: Context };

export interface MessageContext extends Fields {
  readonly message: { readonly text: string; readonly attachments: z.infer<typeof attachments> };
}

type MessageHook = 'middleware.inboundMessage' | 'middleware.outboundMessage';
export const isMessageHook = (hook: HookName): hook is MessageHook =>
  hook === 'middleware.inboundMessage' || hook === 'middleware.outboundMessage';

interface MessageOptions extends Pick<HookRequest, 'noticeId' | 'isRepeated'> {
  /** Characters that the text may have. Default: as the hook's schema allows. */
  readonly textMaxChars?: number | undefined;
  /** Whether to refuse a message with a file that the account does not have. Default: such files are left out. */
  readonly requiresFiles?: boolean;
}

/**
 * Runs a hook on a message, and makes the session hold the message's files, so that they exist as long as the session. A file that
 * a plugin adds is held before the next plugin runs. Each file gets the type that was detected from its bytes. Files that the
 * account does not have are left out.
 *
 * @throws Problem `bad_request` for a missing file if `requiresFiles` is set, `quota_exceeded` for a message with files
 */
export async function runMessageHook<Context extends MessageContext>(
  services: SessionServices,
  session: Session,
  hook: MessageHook,
  context: Context,
  trigger: Trigger,
  { requiresFiles = false, textMaxChars = TEXT_MAX_CHARS, ...options }: MessageOptions = {},
): Promise<HookResult<Context>> {
  const holdFiles = async (given: Context, missing: 'left out' | 'refused'): Promise<Context> => {
    const attachments = await holdAttachments(services, session, given.message.attachments, missing);
    return { ...given, message: { ...given.message, attachments } };
  };
  const findFault = (changed: Fields): string | null => {
    const { length } = (changed as Context).message.text;
    if (length <= textMaxChars) return null;
    return `message.text has ${length} characters, and the message has room for ${textMaxChars}`;
  };
  const completeChange = (changed: Fields): Promise<Context> => holdFiles(changed as Context, 'left out');
  const held = await holdFiles(context, requiresFiles ? 'refused' : 'left out');
  const result = await runSessionHook(services, session, hook, held, trigger, {
    ...options,
    findFault,
    completeChange,
  });
  if (result.cancelled) return { ...result, context: result.context as Context };
  // Holds the files again, because the session may have been cleared while the plugins ran.
  return { ...result, context: await completeChange(result.context) };
}

/** Runs a hook for a session. @throws Problem `cancelled` if the hook cancels the operation */
export async function runHookOrThrow<Context extends Fields>(
  services: SessionServices,
  session: Session,
  hook: HookName,
  context: Context,
  trigger: Trigger,
  options?: HookOptions,
): Promise<HookResult<Context>> {
  const result = await runSessionHook(services, session, hook, context, trigger, options);
  return requireContinued({ ...result, context: result.context as Context });
}

/** @throws Problem `cancelled` */
export function requireContinued<Result extends ChainState>(result: Result): Result {
  const { cancelled } = result;
  if (cancelled) throw new Problem('cancelled', formatCancel(cancelled));
  return result;
}
