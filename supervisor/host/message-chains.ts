/** Bounds messages that plugins write while they judge the messages of others. */
import type { Session } from '../../db/sessions/sessions.ts';
import { perMinute, TokenBuckets } from '../../service/timing/token-bucket.ts';
import { HostError, type HostScope } from './host-call.ts';

/** Maximum length of a chain of messages, in which a hook on each writes the next. */
export const MESSAGE_CHAIN_MAX = 3;
/**
 * Limit for all plugins of an account: messages to agents, and posts by handlers that judge a message. It also stops loops of
 * handlers that write only after they have answered, which have no position in a chain.
 */
const MESSAGES_PER_MINUTE = 120;
/** Limit for posts by all other handlers of an account's plugins. Each post may run a hook of every plugin. */
const POSTS_PER_MINUTE = 1_200;

export class MessageChains {
  readonly #messages = new TokenBuckets(perMinute(MESSAGES_PER_MINUTE));
  readonly #posts = new TokenBuckets(perMinute(POSTS_PER_MINUTE));
  /** Position in its chain of each message that is being judged. The key is the session object that its hooks get. */
  readonly #positions = new WeakMap<Session, number>();

  /** Counts one more message of a handler. @throws HostError if its chain is too long, or the rate limit of the account is exceeded */
  admit({ session, plugin }: HostScope, call: 'agents.send' | 'session.post'): void {
    const position = this.#findPosition(session);
    if (position >= MESSAGE_CHAIN_MAX)
      throw new HostError(`messages triggered further messages ${MESSAGE_CHAIN_MAX} times; this one was not sent`);
    const isPost = call === 'session.post' && position === 0;
    const [rates, perMinuteMax] = isPost ? [this.#posts, POSTS_PER_MINUTE] : [this.#messages, MESSAGES_PER_MINUTE];
    const bucket = rates.get(plugin.accountId);
    if (!bucket.consume())
      throw new HostError(
        `rate limit exceeded: ${perMinuteMax} messages per minute for all plugins of an account; retry after ${bucket.secondsUntil(1)} s`,
      );
  }

  /** Copies the session `to` for the hooks on a message that `scope` writes to it, and records the message's position. */
  extend({ session }: HostScope, to: Session): Session {
    const judged = { ...to };
    this.#positions.set(judged, this.#findPosition(session) + 1);
    return judged;
  }

  #findPosition(session: Session | null): number {
    return session === null ? 0 : (this.#positions.get(session) ?? 0);
  }
}
