/** The audit log holds no more of a call in memory than it stores, and says which entries it dropped. */
import { setImmediate as turn } from 'node:timers/promises';
import type { Pool } from 'pg';
import t from 'tap';
import { maintainAudit, pageAudit } from '../../../db/records/audit.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { AuditSink } from '../../../supervisor/records/audit-sink.ts';
import { SecretMasks } from '../../../supervisor/records/secret-mask.ts';
import { collectGarbage } from '../../fixtures/collect-garbage.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

const CALLS = amount({ quick: 24, soak: 64 });
const WHY = 'too many waited for the database, or it rejects them';
const call = {
  accountId: 'a',
  installationId: 'i',
  sessionId: null,
  invocationId: null,
  durationMs: 0,
  argumentsSha256: null,
};

const { pool } = await testDatabase(t);
await maintainAudit(pool);
t.beforeEach(() => pool.query('TRUNCATE audit'));

/** Counts what the sink reports to the metrics. */
function countEntries() {
  const counted = { written: 0, dropped: 0 };
  const onEntries = (written: number, dropped: number) => {
    counted.written += written;
    counted.dropped += dropped;
  };
  return { counted, onEntries };
}

t.test('calls with long names that wait for the database hold what is stored of them', async (t) => {
  const away = { query: () => Promise.reject(new Error('away')) } as unknown as Pool;
  const sink = new AuditSink(away, new SecretMasks(), { onError: () => undefined });
  const before = (await collectGarbage()).heapUsed;
  for (let number = 0; number < CALLS; number += 1) {
    const name = `${number}${'x'.repeat(MIB)}`;
    sink.write({
      ...call,
      outcome: 'denied',
      member: Buffer.from(name).toString(),
      detail: Buffer.from(name).toString(),
    });
    await turn();
  }
  const held = (await collectGarbage()).heapUsed - before;
  t.equal(sink.waiting, CALLS);
  t.ok(held < 8 * MIB, `${held} bytes of ${2 * CALLS} MiB`);
});

t.test('entries without room are counted, and the next ones say how many are missing', async (t) => {
  let isAway = true;
  const query = (...args: unknown[]) =>
    isAway ? Promise.reject(new Error('away')) : (pool.query as (...all: unknown[]) => unknown)(...args);
  const { counted, onEntries } = countEntries();
  const sink = new AuditSink({ query } as unknown as Pool, new SecretMasks(), { onError: () => undefined, onEntries });
  const made = 20_000;
  for (let number = 0; number < made; number += 1) sink.write({ ...call, outcome: 'ok', member: 'storage.get' });
  sink.write({ ...call, accountId: 'b', installationId: 'quiet', outcome: 'ok', member: 'storage.get' });
  isAway = false;
  await sink.flush();
  const { dropped } = counted;
  t.ok(dropped > 0 && dropped < made, `${dropped} entries dropped`);
  t.equal(counted.written, made - dropped + 2);
  const {
    items: [newest],
  } = await pageAudit(pool, { installationId: 'i', limit: 1 });
  t.match(newest, { member: 'dropped', outcome: 'failed', detail: `${dropped} entries dropped: ${WHY}` });
  t.match((await pageAudit(pool, { installationId: 'quiet', limit: 10 })).items, [{ member: 'storage.get' }]);
});

t.test('entries that the database rejects are counted, too, but a report is not reported', async (t) => {
  const rejection = Object.assign(new Error('bad'), { code: '22P05' });
  const rejected = new Set(['bad']);
  const query = (sql: string, [entries]: [string]) =>
    [...rejected].some((member) => entries.includes(`"member":"${member}"`))
      ? Promise.reject(rejection)
      : pool.query(sql, [entries]);
  const { counted, onEntries } = countEntries();
  const sink = new AuditSink({ query } as unknown as Pool, new SecretMasks(), { onError: () => undefined, onEntries });
  const write = (...members: string[]) => {
    for (const member of members) sink.write({ ...call, outcome: 'denied', member });
  };
  write('one', 'bad', 'two', 'bad');
  await sink.flush();
  const { items } = await pageAudit(pool, { installationId: 'i', limit: 10 });
  t.match(items, [{ member: 'dropped', detail: `2 entries dropped: ${WHY}` }, { member: 'two' }, { member: 'one' }]);
  t.same(counted, { written: 3, dropped: 2 });
  rejected.add('dropped');
  write('bad');
  await sink.flush();
  t.equal(sink.waiting, 0);
  t.same(counted, { written: 3, dropped: 4 });
});

t.test('entries whose commit was not confirmed are stored once', async (t) => {
  let isLost = true;
  const query = async (sql: string, values: unknown[]) => {
    const result = await pool.query(sql, values);
    if (isLost) throw new Error('Connection terminated unexpectedly');
    return result;
  };
  const sink = new AuditSink({ query } as unknown as Pool, new SecretMasks(), { onError: () => undefined });
  sink.write({ ...call, outcome: 'ok', member: 'storage.get' });
  await sink.flush();
  isLost = false;
  await sink.flush();
  const { items } = await pageAudit(pool, { installationId: 'i', limit: 10 });
  t.strictSame(
    items.map(({ member }) => member),
    ['storage.get'],
  );
});
