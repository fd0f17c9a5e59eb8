/** Reads the rows added to a table, each row once, as events. */
export interface RowEvent {
  /** The id to continue from after this event. */
  readonly id: string;
  readonly type: string;
  readonly data: unknown;
}
export interface RowTail {
  /** The id to continue from, in this tail or a later one. */
  readonly position: string;
  /**
   * Reads the next rows as events, oldest first. `more`: read again at once. `soon`: rows exist that cannot be sent until
   * a running transaction ends.
   */
  read(): Promise<{ readonly events: readonly RowEvent[]; readonly more: boolean; readonly soon?: boolean }>;
}
