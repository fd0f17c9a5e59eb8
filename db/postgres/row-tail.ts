/** Reads a table forwards, each row once. */
export interface RowTail {
  /** The id to go on from, in this tail or in a later one. */
  readonly position: string;
  /** The next rows as events, oldest first. `more`: there may be others at once; `soon`: when a transaction has ended. */
  read(): Promise<{ readonly events: string; readonly more: boolean; readonly soon?: boolean }>;
}
