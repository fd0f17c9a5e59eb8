/** Runs a hook for a session and builds the response of the session API. */
import type { z } from 'zod';
import type { Session } from '../../db/sessions/sessions.ts';
import { describeCancel, Problem } from '../../sdk/contract/errors.ts';
import type { attachments, trigger } from '../../sdk/contract/payloads.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import type { Cancel, ChainState, Fields } from '../calls/chain.ts';
import { runHook } from '../calls/hook-runner.ts';
import type { HookRequest } from '../calls/plugin-port.ts';
import { holdAttachments } from './session-media.ts';
import type { SessionServices } from './session-services.ts';

export interface HookAnswer {
  readonly action: 'continue' | 'cancel';
  readonly context: Fields;
  readonly reason: string | null;
  readonly cancelledBy: ChainState['trace'][number]['slug'] | null;
  readonly trace: ChainState['trace'];
  /** The cancel itself, from which this process writes its own texts. */
  readonly cancel: Cancel | null;
}

type HookOptions = Pick<HookRequest, 'noticeId' | 'completeChange'>;

/** Runs a hook for a session. */
export async function runSessionHook(
  services: SessionServices,
  session: Session,
  hook: HookName,
  context: Fields,
  by: z.infer<typeof trigger>,
  options: HookOptions = {},
): Promise<HookAnswer> {
  const request = { ...options, hook, accountId: session.accountId, session, context, trigger: by };
  const { cancelled, trace, context: result } = await runHook(services, request);
  return {
    action: cancelled ? 'cancel' : 'continue',
    context: result,
    reason: cancelled?.reason ?? null,
    cancelledBy: cancelled?.by.slug ?? null,
    trace,
    cancel: cancelled,
  };
}

/** The result of a hook whose context has one type. */
type AnswerWith<Context extends Fields> = HookAnswer & { readonly context: Context };

interface MessageContext extends Fields {
  readonly message: { readonly text: string; readonly attachments: z.infer<typeof attachments> };
}

type MessageHook = 'middleware.inboundMessage' | 'middleware.outboundMessage';
export const isMessageHook = (hook: HookName): hook is MessageHook =>
  hook === 'middleware.inboundMessage' || hook === 'middleware.outboundMessage';

/**
 * Runs a hook on a message. The session holds the message's files, those that a plugin adds before the next plugin gets them:
 * with the types that were detected, and without those that the account does not have.
 *
 * @throws Problem `quota_exceeded` for a message with files
 */
export async function runMessageHook<Context extends MessageContext>(
  services: SessionServices,
  session: Session,
  hook: MessageHook,
  context: Context,
  by: z.infer<typeof trigger>,
  noticeId?: string,
): Promise<AnswerWith<Context>> {
  const hold = async (given: Fields): Promise<Context> => {
    const { message, ...rest } = given as Context;
    const held = await holdAttachments(services, session, message.attachments);
    return { ...rest, message: { ...message, attachments: held } } as Context;
  };
  const options = { noticeId, completeChange: hold };
  const answer = await runSessionHook(services, session, hook, await hold(context), by, options);
  // Again, because the session may have been cleared while the plugins ran.
  return { ...answer, context: answer.cancel ? (answer.context as Context) : await hold(answer.context) };
}

/** Runs a hook that a runtime names. `context` fits the hook. */
export function runNamedHook(
  services: SessionServices,
  session: Session,
  hook: HookName,
  context: Fields,
  by: z.infer<typeof trigger>,
): Promise<HookAnswer> {
  return isMessageHook(hook)
    ? runMessageHook(services, session, hook, context as MessageContext, by)
    : runSessionHook(services, session, hook, context, by);
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
export function requireContinued<Answer extends HookAnswer>(answer: Answer): Answer {
  if (answer.cancel) throw new Problem('cancelled', describeCancel(answer.cancel.by.displayName, answer.cancel.reason));
  return answer;
}
