/** Callers of one account that wait for its lock leave the connections to others. */
import t from 'tap';
import { createAgent, deleteAgent, updateAgent } from '../../../db/accounts/agents.ts';
import { releaseMedia, saveMedia } from '../../../db/accounts/media.ts';
import { removeInstallation } from '../../../db/installations/installation-removal.ts';
import { writeStorageValue } from '../../../db/installations/plugin-storage.ts';
import { startQueues } from '../../../db/jobs/queues.ts';
import { inLockedTransaction, inTransaction, openPool, takeNamedLock } from '../../../db/postgres/pool.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { testDatabase } from '../../runner/harness.ts';

const CALLS = 16;
/** One holds the lock, one waits for it, and one is for others. */
const CONNECTIONS = 3;

const { pool: own, url } = await testDatabase(t);
const { pool, close } = openPool(url, {
  name: 'locked-transactions-test',
  connections: CONNECTIONS,
  onError: () => undefined,
});
t.teardown(close);
const queues = await startQueues({ pool: own, role: 'producer', onError: () => undefined });
t.teardown(() => queues.stop());
const accountId = 'a';
await own.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
await insertBareInstallation(own, { accountId });
const scope = { accountId, madeBy: null };
const agent = await createAgent(own, scope, { name: 'n' });
const media = { accountId, holder: { installationId: 'i' }, sha256: 'x', sizeBytes: 1, mediaType: 'a/b', name: null };

const calls: Readonly<Record<string, readonly [lock: string, call: () => Promise<unknown>]>> = {
  'host.storage.set': ['storage:i', () => writeStorageValue(pool, 'i', { key: 'k', value: '1' }, 1_000)],
  'host.media.put': ['media:a', () => saveMedia(pool, media, { bytes: 1_000, files: 10 })],
  'host.media.remove': ['media:a', () => releaseMedia(pool, { accountId, installationId: 'i', id: 'm' })],
  'host.agents.create': ['agents:a', () => createAgent(pool, scope, { name: 'n' })],
  'host.agents.update': ['agents:a', () => updateAgent(pool, scope, agent?.id ?? '', { name: 'm' })],
  'host.agents.remove': ['sessions:a', () => deleteAgent(pool, queues, { accountId }, 'absent')],
  'removal of an installation': ['sessions:a', () => removeInstallation(pool, queues, 'i')],
};

for (const [name, [lock, call]] of Object.entries(calls))
  t.test(name, async (t) => {
    const waiting = inTransaction(pool, async (tx) => {
      await takeNamedLock(tx, lock);
      const running = Promise.all(Array.from({ length: CALLS }, call));
      running.catch(() => undefined);
      await pool.query('SELECT 1');
      return { running };
    });
    t.equal((await (await waiting).running).length, CALLS);
  });

t.test('a call that is aborted while it waits does nothing', async (t) => {
  const { promise: isFirstDone, resolve } = Promise.withResolvers<void>();
  const first = inLockedTransaction(pool, 'lock', () => isFirstDone);
  const end = new AbortController();
  const second = inLockedTransaction(pool, 'lock', () => Promise.reject(new Error('it ran')), end.signal);
  end.abort(new Error('it ended'));
  await t.rejects(second, { message: 'it ended' }, 'before the first one is done');
  let isThirdRunning = false;
  const third = inLockedTransaction(pool, 'lock', async () => {
    isThirdRunning = true;
  });
  await pool.query('SELECT 1');
  t.notOk(isThirdRunning, 'the next one still waits for the first');
  resolve();
  await Promise.all([first, third]);
  await t.rejects(
    inLockedTransaction(pool, 'lock', async () => t.fail('it ran'), end.signal),
    { message: 'it ended' },
  );
});

t.test('an installation has a limited number of keys in its storage', async (t) => {
  await own.query(
    `INSERT INTO installation_storage (installation_id, key, value, size_bytes)
     SELECT 'i', 'k' || n, '1', 1 FROM generate_series(1, $1::int) n`,
    [limits.storageKeys - 1],
  );
  const write = (key: string) => writeStorageValue(pool, 'i', { key, value: '2' }, 1_000_000);
  t.equal(await write('one more'), 'keys');
  t.equal(await write('k1'), null, 'those that exist can be changed');
});
