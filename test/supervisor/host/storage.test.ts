/** `host.storage` without a database. */
import type { Pool } from 'pg';
import t from 'tap';
import { MIB } from '../../../sdk/contract/limits.ts';
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import { checkResult } from '../../../supervisor/host/call-checks.ts';
import type { HostScope } from '../../../supervisor/host/host-call.ts';
import { storageCalls } from '../../../supervisor/host/storage.ts';
import { requireListable } from '../../../supervisor/host/stored-values.ts';

const STORAGE_BYTES = 100;

t.test('a value that could not be read again is refused, whatever the storage holds', async (t) => {
  const pool = {
    connect: async () => {
      throw new Error('no database');
    },
  } as unknown as Pool;
  const scope = { plugin: { installationId: 'i1' }, writes: pool } as unknown as HostScope;
  const store = (value: string) => storageCalls(pool, 4 * MIB)['storage.set'](scope, { key: 'k', value });
  await t.rejects(store('x'.repeat(MIB - 1)), {
    name: 'HostError',
    message: 'a value has at most 1048576 bytes of JSON; divide it over several keys',
  });
  const largest = 'x'.repeat(MIB - 2);
  await t.rejects(store(largest), /no database/);
  t.equal(checkResult('storage.get', hostCalls['storage.get'], largest), largest);
});

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

t.test('a value is not deleted after its call has ended', async (t) => {
  const sent: string[] = [];
  const query = async (sql: string) => {
    sent.push(sql);
    return { rows: [] };
  };
  const pool = { connect: async () => ({ query, release: () => undefined }) } as unknown as Pool;
  const remove = (signal: AbortSignal) => {
    const scope = { plugin: { installationId: 'i1' }, writes: pool, signal } as unknown as HostScope;
    return storageCalls(pool, STORAGE_BYTES)['storage.delete'](scope, { key: 'k' });
  };
  await t.rejects(remove(AbortSignal.abort()), { name: 'AbortError' });
  t.notOk(sent.includes('COMMIT'));
  await remove(new AbortController().signal);
  t.ok(sent.includes('COMMIT'));
});

t.test('a list of keys that are too long together for a result says what to do', (t) => {
  const keys = (count: number) => Array.from({ length: count }, (_, n) => String(n).padStart(512, 'k'));
  // Each key counts one byte more.
  const fitting = Math.floor(hostCalls['storage.list'].maxBytes / 513);
  t.equal(requireListable(keys(fitting)).length, fitting);
  t.throws(() => requireListable(keys(fitting + 1)), {
    name: 'HostError',
    message: 'the keys have more than 1048576 bytes together: list a longer prefix',
  });
  t.end();
});
