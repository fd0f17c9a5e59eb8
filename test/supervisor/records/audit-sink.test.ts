/** The audit log holds no more of a call in memory than it stores. */
import { setImmediate as turn } from 'node:timers/promises';
import type { Pool } from 'pg';
import t from 'tap';
import { MIB } from '../../../sdk/contract/limits.ts';
import { AuditSink } from '../../../supervisor/records/audit-sink.ts';
import { SecretMasks } from '../../../supervisor/records/secret-mask.ts';
import { collectGarbage } from '../../fixtures/collect-garbage.ts';

const CALLS = 64;

t.test('calls with long names that wait for the database hold what is stored of them', async (t) => {
  const away = { query: () => Promise.reject(new Error('away')) } as unknown as Pool;
  const sink = new AuditSink(away, new SecretMasks(), { onError: () => undefined });
  const call = { accountId: 'a', installationId: 'i', sessionId: null, invocationId: null, durationMs: 0, args: [] };
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
