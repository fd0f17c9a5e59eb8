/** Bounds messages that plugins write while they judge the messages of others. */
import type { Session } from '../../db/sessions/sessions.ts';
import { perMinute, TokenBuckets } from '../../service/timing/token-bucket.ts';
import { HostError, type HostScope } from './host-call.ts';

/** Maximum length of a chain of messages, in which a hook on each writes the next. */
export const MESSAGE_CHAIN_MAX = 3;
/** Messages between an account's agents, and messages of hooks on messages, per minute: stops loops whose handlers have already answered. */
const MESSAGES_PER_MINUTE = 120;

export class MessageChains {
  readonly #rateLimits = new TokenBuckets(perMinute(MESSAGES_PER_MINUTE));
  /** Position in its chain of the message that is being judged, by the session object that its hooks get. */
  readonly #positions = new WeakMap<Session, number>();

  /** @throws HostError where the chain is too long, or the account's plugins write too much */
  requireNext({ session, plugin }: HostScope, { isLimited }: { readonly isLimited: boolean }): void {
    const position = this.#position(session);
    if (position >= MESSAGE_CHAIN_MAX)
      throw new HostError(`messages triggered further messages ${MESSAGE_CHAIN_MAX} times; this one was not sent`);
    if ((isLimited || position > 0) && !this.#rateLimits.get(plugin.accountId).consume())
      throw new HostError(`an account’s plugins send ${MESSAGES_PER_MINUTE} messages a minute at most`);
  }

  /** The session for the hooks on the message that `scope` writes to a session. */
  extend({ session }: HostScope, to: Session): Session {
    const judged = { ...to };
    this.#positions.set(judged, this.#position(session) + 1);
    return judged;
  }

  #position(session: Session | null): number {
    return session === null ? 0 : (this.#positions.get(session) ?? 0);
  }
}
