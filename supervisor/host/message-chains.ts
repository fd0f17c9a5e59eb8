/** Bounds messages that plugins write while they judge the messages of others. */
import type { Session } from '../../db/sessions/sessions.ts';
import { perMinute, TokenBuckets } from '../../service/timing/token-bucket.ts';
import { HostError, type HostScope } from './host-call.ts';

/** Maximum length of a chain of messages, in which a hook on each writes the next. */
export const MESSAGE_CHAIN_MAX = 3;
/** Messages to agents, and messages of hooks on messages, of an account's plugins: stops loops whose handlers have already answered. */
const MESSAGES_PER_MINUTE = 120;
/** Posts of other handlers of an account's plugins: each may run a hook of every plugin. */
const POSTS_PER_MINUTE = 1_200;

export class MessageChains {
  readonly #messages = new TokenBuckets(perMinute(MESSAGES_PER_MINUTE));
  readonly #posts = new TokenBuckets(perMinute(POSTS_PER_MINUTE));
  /** Position in its chain of the message that is being judged, by the session object that its hooks get. */
  readonly #positions = new WeakMap<Session, number>();

  /** Lets a handler write one more message. @throws HostError where the chain is too long, or the account's plugins write too much */
  admit({ session, plugin }: HostScope, call: 'agents.send' | 'session.post'): void {
    const position = this.#findPosition(session);
    if (position >= MESSAGE_CHAIN_MAX)
      throw new HostError(`messages triggered further messages ${MESSAGE_CHAIN_MAX} times; this one was not sent`);
    const isPost = call === 'session.post' && position === 0;
    const [rates, perMinuteMax] = isPost ? [this.#posts, POSTS_PER_MINUTE] : [this.#messages, MESSAGES_PER_MINUTE];
    if (!rates.get(plugin.accountId).consume())
      throw new HostError(`an account’s plugins send ${perMinuteMax} messages a minute at most`);
  }

  /** The session for the hooks on the message that `scope` writes to a session. */
  extend({ session }: HostScope, to: Session): Session {
    const judged = { ...to };
    this.#positions.set(judged, this.#findPosition(session) + 1);
    return judged;
  }

  #findPosition(session: Session | null): number {
    return session === null ? 0 : (this.#positions.get(session) ?? 0);
  }
}
