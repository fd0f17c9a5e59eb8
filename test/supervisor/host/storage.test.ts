/** `host.storage` without a database. */
import type { Pool } from 'pg';
import t from 'tap';
import type { HostScope } from '../../../supervisor/host/host-call.ts';
import { storageCalls } from '../../../supervisor/host/storage.ts';

const STORAGE_BYTES = 100;

t.test('a value that is larger than the whole storage is refused without a connection to the database', async (t) => {
  let taken = 0;
  const connect = async () => {
    taken += 1;
    throw new Error('no database');
  };
  const pool = { connect } as unknown as Pool;
  const scope = { plugin: { installationId: 'i1' }, writes: pool } as unknown as HostScope;
  const store = (value: string) => storageCalls(pool, STORAGE_BYTES)['storage.set'](scope, { key: 'k', value });
  // The key, and the quotes of the text, count.
  await t.rejects(store('x'.repeat(STORAGE_BYTES - 2)), /storage is full/);
  t.equal(taken, 0);
  await t.rejects(store('x'.repeat(STORAGE_BYTES - 3)), /no database/);
  t.equal(taken, 1);
});
