/** Summarizes a chain's result as the judgement that is stored with the message. */
import type { Judgement } from '../../db/sessions/turns.ts';
import type { ChainState } from './chain.ts';

const RAN: ReadonlySet<string> = new Set(['changed', 'unchanged', 'cancelled']);

export function toJudgement(hook: string, { trace, cancelled }: Pick<ChainState, 'trace' | 'cancelled'>): Judgement {
  // Sets, because a required plugin may have been called twice.
  const changedBy = [...new Set(trace.filter(({ outcome }) => outcome === 'changed').map(({ slug }) => slug))];
  return {
    hook,
    outcome: cancelled ? 'cancelled' : changedBy.length > 0 ? 'changed' : 'unchanged',
    asked: new Set(trace.filter(({ outcome }) => RAN.has(outcome)).map(({ installationId }) => installationId)).size,
    by: cancelled ? [cancelled.by.slug] : changedBy,
    reason: cancelled?.reason ?? null,
  };
}

/** Merges the judgements of two parts of a text, or of two runs over it. */
export const mergeJudgements = (before: Judgement, after: Judgement): Judgement =>
  after.outcome === 'cancelled'
    ? after
    : {
        ...after,
        outcome: after.outcome === 'changed' ? 'changed' : before.outcome,
        asked: Math.max(before.asked, after.asked),
        by: [...new Set([...before.by, ...after.by])],
      };
