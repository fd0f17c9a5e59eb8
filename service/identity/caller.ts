/** The signed-in account that a request acts as. */
export interface Caller {
  readonly id: string;
  readonly name: string;
  readonly operator: boolean;
  /** The record of the request's token; null: it has none. */
  readonly tokenId: string | null;
}
