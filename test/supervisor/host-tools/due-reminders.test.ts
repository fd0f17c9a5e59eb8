/** The search for due reminders and the order of their deliveries, without a database. */
import t from 'tap';
import { type DueDeps, DueReminders } from '../../../supervisor/host-tools/due-reminders.ts';

t.test('a scan that the database answers after the stop begins no delivery', async (t) => {
  const { promise: found, resolve } = Promise.withResolvers<{ rows: { accountId: string }[] }>();
  const begun: string[] = [];
  const due = new DueReminders({
    services: { pool: { query: () => found } },
    ownership: { listShards: () => null, begin: (accountId: string) => void begun.push(accountId) },
    reminderScanMs: 3_600_000,
    onError: (error: Error) => t.fail(error.message),
  } as unknown as DueDeps);
  const scan = due.scan();
  await due.stop(0);
  resolve({ rows: [{ accountId: 'ann' }] });
  await scan;
  t.same(begun, []);
});

t.test('after the stop, the account’s next reminder is not delivered', async (t) => {
  const asked: string[] = [];
  const { promise: isAsked, resolve: ask } = Promise.withResolvers<void>();
  const { promise: answered, resolve: answer } = Promise.withResolvers<null>();
  const due = new DueReminders({
    services: {
      pool: { query: async () => ({ rows: ['s1', 's2'].map((sessionId) => ({ accountId: 'ann', sessionId })) }) },
      sessions: {
        get: (_account: string, sessionId: string) => {
          asked.push(sessionId);
          ask();
          return answered;
        },
      },
    },
    ownership: { listShards: () => null, begin: () => ({ fence: {}, isLeaving: () => false, end: () => undefined }) },
    reminderScanMs: 3_600_000,
    onError: (error: Error) => t.fail(error.message),
  } as unknown as DueDeps);
  await due.scan();
  await isAsked;
  const stopped = due.stop(60_000);
  answer(null);
  await stopped;
  t.same(asked, ['s1']);
});
