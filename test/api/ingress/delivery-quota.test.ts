/** The quota of deliveries while the database answers late. */
import { setImmediate as turn } from 'node:timers/promises';
import type { Pool } from 'pg';
import t from 'tap';
import { DeliveryQuota } from '../../../api/ingress/delivery-quota.ts';

t.test('the room of an account is read once at a time, however long the database takes', async (t) => {
  let now = 0;
  const reads: PromiseWithResolvers<unknown>[] = [];
  const query = () => {
    const read = Promise.withResolvers<unknown>();
    reads.push(read);
    return read.promise;
  };
  const onError = (error: Error) => t.fail(error.message);
  const quota = new DeliveryQuota({ query } as unknown as Pool, onError, () => now);
  for (let second = 0; second < 30; second += 1) {
    quota.check('ann');
    now += 1_000;
  }
  t.equal(reads.length, 1);
  reads[0]?.resolve({ rows: [{ usedBytes: 10, limitBytes: 10 }] });
  await turn();
  t.throws(() => quota.check('ann'), { code: 'rate_limited' });
  t.equal(reads.length, 2, 'the next read begins when the first has ended');
});
