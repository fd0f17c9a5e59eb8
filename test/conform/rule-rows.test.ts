/** Rows that send several calls at once. */
import t from 'tap';
import { Account } from '../../conform/account.ts';
import { rules } from '../../conform/chapters/rule-rows.ts';
import type { Run } from '../../conform/run.ts';

t.test('a row whose calls all fail ends with an error, and no failure ends the process', async (t) => {
  const unhandled: unknown[] = [];
  const note = (error: unknown): number => unhandled.push(error);
  process.on('unhandledRejection', note);
  t.teardown(() => process.off('unhandledRejection', note));
  const other = new Account({ rest: 'http://127.0.0.1:1', sessions: null, webhooks: null }, 'token');
  // It refuses each call before it is sent.
  other.close();
  const run = { other, plain: async () => ({ id: 'one' }), unusedSemVer: () => '1.0.0' } as unknown as Run;
  const row = rules.rows.find(({ sentence }) => sentence.endsWith('by its owner only.'));
  await t.rejects(row?.check(run) ?? Promise.resolve(), { message: 'the run has ended' });
  await new Promise(setImmediate);
  t.same(unhandled, []);
});
