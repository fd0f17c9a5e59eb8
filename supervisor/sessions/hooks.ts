/** Runs hooks for a session. */
import type { Session } from '../../db/sessions/sessions.ts';
import type { Trigger } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import { type ChainState, type Fields, formatCancel } from '../calls/chain.ts';
import { runHook } from '../calls/hook-runner.ts';
import {
  type HookResult,
  judgeMessage,
  type MessageContext,
  type MessageHook,
  type MessageOptions,
} from '../calls/message-hook.ts';
import type { HookRequest } from '../calls/plugin-port.ts';
import type { SessionServices } from './session-services.ts';

type HookOptions = Pick<HookRequest, 'noticeId' | 'excludedInstallationId' | 'isRepeated'>;

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

/** Runs a hook on a message of a session: see `judgeMessage`. */
export function runMessageHook<Context extends MessageContext>(
  services: SessionServices,
  session: Session,
  hook: MessageHook,
  context: Context,
  trigger: Trigger,
  options: MessageOptions & Pick<HookRequest, 'noticeId' | 'isRepeated'> = {},
): Promise<HookResult<Context>> {
  const deps = { pool: services.pool, runHook: (request: HookRequest) => runHook(services, request) };
  return judgeMessage(deps, { ...options, hook, session, context, trigger });
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
