/** Runs hooks for a session. */
import type { z } from 'zod';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { attachments, trigger } from '../../sdk/contract/payloads.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import { type ChainState, type Fields, formatCancel } from '../calls/chain.ts';
import { runHook } from '../calls/hook-runner.ts';
import type { HookRequest } from '../calls/plugin-port.ts';
import { holdAttachments } from './session-media.ts';
import type { SessionServices } from './session-services.ts';

type HookOptions = Pick<HookRequest, 'noticeId' | 'completeChange' | 'excludedInstallationId' | 'isRepeated'>;

export function runSessionHook(
  services: SessionServices,
  session: Session,
  hook: HookName,
  context: Fields,
  by: z.infer<typeof trigger>,
  options: HookOptions = {},
): Promise<ChainState> {
  return runHook(services, { ...options, hook, accountId: session.accountId, session, context, trigger: by });
}

/** The result of a hook whose context has one type. */
type AnswerWith<Context extends Fields> = ChainState & { readonly context: Context };

export interface MessageContext extends Fields {
  readonly message: { readonly text: string; readonly attachments: z.infer<typeof attachments> };
}

type MessageHook = 'middleware.inboundMessage' | 'middleware.outboundMessage';
export const isMessageHook = (hook: HookName): hook is MessageHook =>
  hook === 'middleware.inboundMessage' || hook === 'middleware.outboundMessage';

interface MessageOptions extends Pick<HookRequest, 'noticeId' | 'isRepeated'> {
  /** Whether a file that the account does not have is refused, rather than left out. */
  readonly requiresFiles?: boolean;
}

/**
 * Runs a hook on a message. The session holds the message's files, those that a plugin adds before the next plugin gets them:
 * with the types that were detected, and without those that the account does not have.
 *
 * @throws Problem `bad_request` for a file that is required, `quota_exceeded` for a message with files
 */
export async function runMessageHook<Context extends MessageContext>(
  services: SessionServices,
  session: Session,
  hook: MessageHook,
  context: Context,
  by: z.infer<typeof trigger>,
  { requiresFiles = false, ...options }: MessageOptions = {},
): Promise<AnswerWith<Context>> {
  const holdFiles = async (given: Context, missing: 'left out' | 'refused'): Promise<Context> => {
    const attachments = await holdAttachments(services, session, given.message.attachments, missing);
    return { ...given, message: { ...given.message, attachments } };
  };
  const hold = (given: Fields): Promise<Context> => holdFiles(given as Context, 'left out');
  const held = await holdFiles(context, requiresFiles ? 'refused' : 'left out');
  const answer = await runSessionHook(services, session, hook, held, by, { ...options, completeChange: hold });
  // Again, because the session may have been cleared while the plugins ran.
  return { ...answer, context: answer.cancelled ? (answer.context as Context) : await hold(answer.context) };
}

/** Runs a hook for a session, whose operation ends where a plugin cancels it. @throws Problem `cancelled` */
export async function runHookOrThrow<Context extends Fields>(
  services: SessionServices,
  session: Session,
  hook: HookName,
  context: Context,
  by: z.infer<typeof trigger>,
  options?: HookOptions,
): Promise<AnswerWith<Context>> {
  const answer = await runSessionHook(services, session, hook, context, by, options);
  return requireContinued({ ...answer, context: answer.context as Context });
}

/** @throws Problem `cancelled` */
export function requireContinued<Answer extends ChainState>(answer: Answer): Answer {
  const { cancelled } = answer;
  if (cancelled) throw new Problem('cancelled', formatCancel(cancelled));
  return answer;
}
