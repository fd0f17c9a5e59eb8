import t from 'tap';
import { readOrLastKnown } from '../../service/storage/last-known.ts';

const away = () => Promise.reject(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }));
const never = () => new Promise<string>(() => undefined);

t.test('a value that was read wins over the last known one, also null', async (t) => {
  t.equal(await readOrLastKnown(Promise.resolve('new'), 'known'), 'new');
  t.equal(await readOrLastKnown(Promise.resolve(null), 'known'), null);
});

t.test('while the database is away, what is known counts', async (t) => {
  t.equal(await readOrLastKnown(away(), 'known'), 'known');
  t.equal(await readOrLastKnown(never(), 'known', 1), 'known', 'a connection that hangs, too');
  await t.rejects(readOrLastKnown(away(), undefined), { code: 'ECONNREFUSED' });
});

t.test('an error that is no outage is thrown', async (t) => {
  const error = new TypeError('no such column');
  await t.rejects(readOrLastKnown(Promise.reject(error), 'known'), error);
});
