/** No postponement is longer than the wait that a claim accepts. */
import t from 'tap';
import { EVENT_WAIT_MAX_S } from '../../../db/installations/events.ts';
import { events } from '../../../sdk/contract/protocol.ts';
import { judgeAttempt } from '../../../supervisor/delivery/event-retry-policy.ts';
import { judgeDelivery, longestWait, REFUSED_WAIT_S } from '../../../supervisor/delivery/webhook-retry-policy.ts';

const failed = { kind: 'error', message: 'no' } as const;
const WAITS = [5, 3_600];

t.test('deliveries wait at most for the longest of their waits', async (t) => {
  for (const attempt of [1, 2]) {
    const verdict = judgeDelivery({ attempt, interruptions: 0 }, failed, { status: 'ready' }, WAITS, 1);
    t.ok(verdict.kind === 'retry' && verdict.afterSeconds <= longestWait(WAITS));
  }
  t.ok(longestWait([1]) >= REFUSED_WAIT_S);
});

t.test('events wait at most for the longest backoff', async (t) => {
  t.ok(EVENT_WAIT_MAX_S >= REFUSED_WAIT_S);
  for (const [type, { attempts }] of Object.entries(events)) {
    for (let attempt = 1; attempt < attempts; attempt += 1) {
      const verdict = judgeAttempt(type as keyof typeof events, { attempt, interruptions: 0 }, failed, 1);
      t.ok(verdict.kind === 'retry' && verdict.afterSeconds <= EVENT_WAIT_MAX_S, `${type}, attempt ${attempt}`);
    }
  }
});
