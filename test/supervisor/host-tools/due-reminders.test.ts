/** The search for due reminders, without a database. */
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
