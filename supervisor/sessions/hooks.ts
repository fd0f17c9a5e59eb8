/** Runs a hook for a session and builds the response of the session API. */
import type { z } from 'zod';
import type { Session } from '../../db/sessions/sessions.ts';
import { describeCancel, Problem } from '../../sdk/contract/errors.ts';
import type { trigger } from '../../sdk/contract/payloads.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import type { Cancel, ChainState, Fields } from '../calls/chain.ts';
import { runHook } from '../calls/hook-runner.ts';
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

/**
 * Runs a hook for a session.
 *
 * @param noticeId id of the transcript's notice about a cancellation, so that a repeated run writes it once
 */
export async function runSessionHook(
  services: SessionServices,
  session: Session,
  hook: HookName,
  context: Fields,
  by: z.infer<typeof trigger>,
  noticeId?: string,
): Promise<HookAnswer> {
  const request = { hook, accountId: session.accountId, session, context, trigger: by, noticeId };
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

/** Runs a hook for a session, whose operation ends where a plugin cancels it. @throws Problem `cancelled` */
export async function runHookOrThrow<Context extends Fields>(
  services: SessionServices,
  session: Session,
  hook: HookName,
  context: Context,
  by: z.infer<typeof trigger>,
  noticeId?: string,
): Promise<HookAnswer & { readonly context: Context }> {
  const answer = await runSessionHook(services, session, hook, context, by, noticeId);
  if (answer.cancel) throw new Problem('cancelled', describeCancel(answer.cancel.by.displayName, answer.cancel.reason));
  return { ...answer, context: answer.context as Context };
}
