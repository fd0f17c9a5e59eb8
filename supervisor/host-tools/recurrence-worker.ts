/** The thread that computes the times of reminders. */
import { yieldThread } from '../../service/lifecycle/priority.ts';
import { type Following, findFollowing, type RecurringTime } from './recurrence.ts';

export interface RecurrenceTask {
  readonly repeated: RecurringTime;
  readonly dueAt: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Null: the rule cannot be computed. */
export function computeFollowing({ repeated, dueAt, now }: RecurrenceTask): Following | null {
  try {
    return findFollowing(repeated, dueAt, now);
  } catch {
    return null;
  }
}

yieldThread();
