import type { Account } from '../../db/accounts/accounts.ts';
import type { TokenLimits } from '../../db/accounts/issued-tokens.ts';

/** The signed-in account that a request acts as. */
export interface Caller extends Pick<Account, 'id' | 'name' | 'operator' | 'tokensAfter'>, TokenLimits {
  /** The record of the request's token; null: it has none. */
  readonly tokenId: string | null;
  /** The client that an OpenID Connect issuer made the request's token for; null: Bulkhead signed it, or it is a session of the console. */
  readonly client: string | null;
}
