/** The records of a run, which are kept outside the system under test. The invariants are judged from it alone. */

/** A call that adds one to a counter. */
export interface CounterCall {
  readonly account: string;
  /** Milliseconds since 1970, by this process's monotonic clock. */
  readonly startedAt: number;
  readonly endedAt: number;
  /** The number that the plugin stored; null: no good answer, so it may have been stored or not. */
  readonly count: number | null;
  /** Null: no answer came, because the process that was asked ended or was out of reach. */
  readonly reply: Reply | null;
}
/** How a call that reached a process ended. */
export interface Reply {
  /** 0: not in the time that a caller waits. */
  readonly status: number;
  /** Whether the response has `Retry-After`. */
  readonly hasRetryAfter: boolean;
  /** The text of a refusal. */
  readonly message: string;
}
/** A message given to the required guard. */
export interface GuardCall {
  readonly isForbidden: boolean;
  /** Null: no answer, so the message did not get through. */
  readonly action: 'continue' | 'cancel' | null;
  /** Whether the guard marked the message. */
  readonly isMarked: boolean;
}
/** A webhook request that was accepted. */
export interface Accepted {
  readonly id: string;
  /** Name of the API that accepted it. */
  readonly acceptedBy: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}
/** A write of a counter, as a trigger of the database recorded it, in the order of the writes. */
export interface CounterWrite {
  readonly account: string;
  readonly shard: number;
  /** Under which the transaction was fenced; null: it was not. */
  readonly epoch: number | null;
  readonly count: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}
/** The row of an accepted webhook request at the end. */
export interface DeliveryRow {
  readonly id: string;
  readonly state: string;
  readonly cause: string | null;
}

export type FaultKind = 'vanish' | 'drain' | 'other';
/** A fault that was brought about. */
export interface FaultRecord {
  readonly name: string;
  readonly victim: string;
  readonly kind: FaultKind;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly endedAt: number;
  /** Names of the processes that go on and miss the database, while others do not. */
  readonly isolated: readonly string[];
  /** Whether no other fault was under way: only then does a time limit hold. */
  readonly isAlone: boolean;
  /** The epochs, by shard, that the victim owned. */
  readonly owned: ReadonlyMap<number, number>;
}
