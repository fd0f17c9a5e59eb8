/** Accounts share the connections of a supervisor: what one account makes wait for the database delays no other. */
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { countWaiting, openPool } from '../../../db/postgres/pool.ts';
import { asAccount, findLimitedOwner } from '../../../db/postgres/shares.ts';
import { RowStreams } from '../../../service/http/row-streams.ts';
import { Batch } from '../../../supervisor/records/batch.ts';
import { eventually } from '../../runner/eventually.ts';
import type { Teardown } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';
import { asCommand, runCommand, startSupervisorFixture } from '../supervisor-fixture.ts';

const fixture = await startSupervisorFixture(t);
const { pool } = fixture;
/** The fixture's pool has six connections: one is left to the service, and one account gets half of the others, rounded up. */
const OF_ONE = 3;
const CALLS = 40;

const outside = openPool(fixture.url, { name: 'outside', connections: 1, onError: () => undefined });
t.teardown(() => outside.close());

/** Statements on the table wait until the returned function is called. */
async function lockTable(t: Teardown, table: string): Promise<() => Promise<void>> {
  const client = await outside.pool.connect();
  await client.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
  let isLocked = true;
  const unlock = async (): Promise<void> => {
    if (!isLocked) return;
    isLocked = false;
    await client.query('ROLLBACK');
    client.release();
  };
  t.teardown(unlock);
  return unlock;
}

/** Resolves when all calls have a connection or wait for one. */
const untilAllWait = () => eventually(async () => countWaiting(pool) + pool.totalCount - pool.idleCount >= CALLS);

t.test('many slow lists of one account do not delay the calls of another', async (t) => {
  const [slow, other] = [fixture.withNewAccount(), fixture.withNewAccount()];
  await Promise.all([slow.session(), other.session()]);
  const unlock = await lockTable(t, 'todos');
  const lists = Array.from({ length: CALLS }, () => slow.call('GET', '/todos'));
  await untilAllWait();
  const session = await other.session();
  t.equal((await other.call('GET', '/sessions')).status, 200);
  t.equal(
    (await other.call('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text: 'hello' }] })).status,
    200,
  );
  // All of the slow ones still wait. Those of the service itself may wait for a moment, too.
  await eventually(() => countWaiting(pool) === CALLS - OF_ONE);
  await unlock();
  for (const { status } of await Promise.all(lists)) t.equal(status, 200);
});

soakTest(t, 'many slow calls whose body is read do not either', async (t) => {
  const [slow, other] = [fixture.withNewAccount(), fixture.withNewAccount()];
  const session = await slow.session();
  const unlock = await lockTable(t, 'session_messages');
  const added = Array.from({ length: CALLS }, () =>
    slow.call('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text: 'hello' }] }),
  );
  await untilAllWait();
  await other.session();
  await eventually(() => countWaiting(pool) === CALLS - OF_ONE);
  await unlock();
  for (const { status } of await Promise.all(added)) t.equal(status, 200);
});

t.test('many slow host calls of a plugin do not either', async (t) => {
  const [slow, other] = [fixture.withNewAccount(), fixture.withNewAccount()];
  const { slug } = await slow.install({
    code: asCommand(
      `return (await Promise.all(Array.from({ length: ${CALLS} }, (_, n) => host.storage.get('key ' + n)))).length`,
    ),
    capabilities: ['host.storage'],
  });
  const session = await slow.session();
  const unlock = await lockTable(t, 'installation_storage');
  const read = runCommand(slow, slug, {}, { session });
  await eventually(async () => countWaiting(pool) > 0);
  await other.session();
  await unlock();
  t.equal(await read, CALLS);
});

t.test('a stream reads in the share of its account, wherever its client reads on', async (t) => {
  const streams = new RowStreams({ follow: async () => undefined, things: 'rows' });
  t.teardown(() => streams.close());
  const readers: (string | null)[] = [];
  const tail = {
    position: '0',
    read: async () => {
      readers.push(findLimitedOwner()?.accountId ?? null);
      return { events: [{ id: '1', data: {} }], hasMore: true, hasUnsettled: false };
    },
  };
  const stream = await streams.open({
    accountId: 'ann',
    key: '',
    response: { destroy: () => undefined },
    openTail: async () => tail as never,
    isThere: async () => true,
  });
  for (let count = 0; count < 3; count += 1) {
    await eventually(async () => stream.read());
    await setImmediate();
  }
  stream.end();
  stream.destroy();
  t.ok(readers.length > 0);
  t.same([...new Set(readers)], ['ann']);
});

t.test('what many accounts log is written in the share of none', async (t) => {
  const writers: (string | null)[] = [];
  const batch = new Batch<string>({
    maxBytes: 1_000,
    sizeOf: () => 1,
    accountOf: (row) => row,
    ownerOf: (row) => row,
    write: async () => void writers.push(findLimitedOwner()?.accountId ?? null),
    onError: (error) => t.error(error),
  });
  asAccount('ann', () => batch.add('ann'));
  await eventually(async () => writers.length === 1);
  asAccount('ann', () => batch.add('ann'));
  await asAccount('ann', () => batch.flush());
  t.same(writers, [null, null]);
});
