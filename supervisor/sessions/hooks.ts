/** Runs a hook for a session and builds the response of the session API. */
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import type { Session } from '../../db/sessions/sessions.ts';
import { describeCancel, Problem } from '../../sdk/contract/errors.ts';
import type { attachments, trigger } from '../../sdk/contract/payloads.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import type { Cancel, ChainState, Fields } from '../calls/chain.ts';
import { runHook } from '../calls/hook-runner.ts';
import type { HookRequest } from '../calls/plugin-port.ts';
import { holdJudgedAttachments } from './session-media.ts';
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
export type AnswerWith<Context extends Fields> = HookAnswer & { readonly context: Context };

interface MessageContext extends Fields {
  readonly message: { readonly text: string; readonly attachments: z.infer<typeof attachments> };
}

/**
 * Runs a hook on a message whose files the session holds. It holds also the files that a plugin adds, before the next plugin
 * gets them: with the types that were detected, and without those that the account does not have.
 */
export async function runMessageHook<Context extends MessageContext>(
  services: SessionServices,
  session: Session,
  hook: 'middleware.inboundMessage' | 'middleware.outboundMessage',
  context: Context,
  by: z.infer<typeof trigger>,
  noticeId?: string,
): Promise<AnswerWith<Context>> {
  let held = context.message.attachments;
  const completeChange = async (changed: Fields) => {
    const { message } = changed as Context;
    if (isDeepStrictEqual(message.attachments, held)) return changed;
    held = await holdJudgedAttachments(services, session, message.attachments);
    return { ...changed, message: { ...message, attachments: held } };
  };
  const answer = await runSessionHook(services, session, hook, context, by, { noticeId, completeChange });
  return { ...answer, context: answer.context as Context };
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
