/** Types of a reader that returns the rows added to a table as events, each row once. */
import { KIB } from '../../sdk/contract/limits.ts';

/**
 * A read ends with the row that reaches this many bytes. A stream keeps them in memory until its client has read them.
 */
export const TAIL_BATCH_BYTES = 128 * KIB;

/** A JSON value as the database holds it. Streams send the text: to parse many small values blocks the event loop for milliseconds. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export interface RowEvent {
  /** The id to continue from after this event. */
  readonly id: string;
  readonly type: string;
  /** A JSON value, in which objects may hold values of `JsonText`. */
  readonly data: unknown;
}
export interface TailBatch {
  /** Oldest first. */
  readonly events: readonly RowEvent[];
  /** Stored bytes of the events. */
  readonly bytes: number;
  /** Whether more rows may be read at once. */
  readonly hasMore: boolean;
  /** Whether rows exist that cannot be sent until a running transaction ends. */
  readonly hasUnsettled?: boolean;
}
export interface RowTail {
  /** The id to continue from, in this tail or a later one. */
  readonly position: string;
  read(): Promise<TailBatch>;
}
