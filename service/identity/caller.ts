/** The signed-in account that a request acts as. */
export interface Caller {
  readonly id: string;
  readonly name: string;
  readonly operator: boolean;
  /** The record of the request's token; null: it has none. */
  readonly tokenId: string | null;
  /** The scopes of the token; null: it may do all that its account may. */
  readonly scopes: readonly string[] | null;
  /** The service that acts for the account; null: the account itself. */
  readonly actor: string | null;
}
