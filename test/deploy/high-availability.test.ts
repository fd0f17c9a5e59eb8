/** `deploy/ha` as it is: PostgreSQL under Patroni, HAProxy, APIs and supervisors. The primary is killed under load. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseEnv } from 'node:util';
import t from 'tap';
import { openPool } from '../../db/postgres/pool.ts';
import { findHaPrograms } from '../../deploy/ha/ha-programs.ts';
import { startTrial } from '../../deploy/ha/trial.ts';
import { issueToken } from '../../deploy/issue-token.ts';
import { freePort } from '../fixtures/free-port.ts';
import { addAccount, waitUntil } from '../nemesis/cluster.ts';
import { whyNoPatroni } from '../nemesis/patroni-server.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { amount } from '../runner/soak.ts';
import { Ledger } from '../storm/ledger.ts';
import { startRecorder } from '../storm/recorder.ts';

/** A failover takes ttl, 20 s, and the start of the new primary. Milliseconds. */
const FAILOVER_MS = 90_000;
const LOAD_MS = 5_000;
const PAUSE_MS = 30;
const skip = amount<string | false>({ quick: 'with --soak', soak: whyNoPatroni() });

/** Waits until all have arrived, or none arrives any more. */
async function waitWhileArriving(countMissing: () => number): Promise<void> {
  for (let missing = countMissing(), before = missing + 1; missing > 0 && missing < before; ) {
    before = missing;
    await waitUntil(async () => countMissing() === 0).catch(() => undefined);
    missing = countMissing();
  }
}

t.test('nothing acknowledged is lost when the primary is killed, and another one takes over', { skip }, async (t) => {
  const programs = findHaPrograms();
  if ('missing' in programs) throw new Error('skipped above');
  const ledger = new Ledger(await temporaryFolder(t));
  const [port, sessionsPort] = [await freePort(), await freePort()];
  const trial = await startTrial({
    folder: join(await temporaryFolder(t), 'trial'),
    programs,
    port,
    sessionsPort,
    settings: { MODELS_FILE: await startRecorder(t, ledger), WRITES_PER_MINUTE: '100000', LOG_LEVEL: 'error' },
    onNotice: (sentence) => t.comment(sentence),
  });
  t.teardown(trial.stop);
  const settings = parseEnv(readFileSync(trial.settingsFile, 'utf8')) as Record<string, string>;
  const token = await issueToken(['ann'], () => settings);
  const { workerSlug, routingIds } = await addAccount('ann', token, { url: `http://127.0.0.1:${port}` });

  const post = async (path: string, to: number, body: string) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await fetch(`http://127.0.0.1:${to}${path}`, { method: 'POST', headers, body }).catch(() => null);
    return answer?.ok ? await answer.json() : null;
  };
  const over = new AbortController();
  let refused = 0;
  const deliver = async (routingId: string): Promise<void> => {
    for (let place = 0; !over.signal.aborted; place += 1) {
      const answer = await post(`/webhook/plugin/${routingId}`, port, `${routingId} ${place}`);
      if (answer === null) refused += 1;
      else ledger.acknowledge({ id: answer.id, queue: routingId, place });
      await sleep(PAUSE_MS);
    }
  };
  const counts: number[] = [];
  const count = async (): Promise<void> => {
    // The supervisors may still divide the accounts among themselves.
    const session = await eventually(() => post('/sessions', sessionsPort, '{"agentId":"caller"}'));
    while (!over.signal.aborted) {
      const answer = await post(
        `/sessions/${session.id}/commands/${workerSlug}__count`,
        sessionsPort,
        '{"input":"{}"}',
      );
      if (Number.isInteger(Number(answer?.text))) counts.push(Number(answer?.text));
      await sleep(PAUSE_MS);
    }
  };
  const load = [...routingIds.map(deliver), count()];

  await sleep(LOAD_MS);
  const { nodes, waitUntilSafe } = trial.database;
  const roles = await Promise.all(nodes.map((node) => node.readRole()));
  const [primary, standby] = roles[0] === 'primary' ? nodes : nodes.toReversed();
  const killed = performance.now();
  await primary?.stop('SIGKILL');
  await waitUntil(async () => (await standby?.readRole()) === 'primary', FAILOVER_MS);
  t.comment(`the standby is the primary after ${Math.round(performance.now() - killed)} ms`);
  const before = counts.length;
  await waitUntil(async () => counts.length > before + 5, FAILOVER_MS);
  await primary?.start();
  await waitUntilSafe();
  over.abort();
  await Promise.all(load);
  await waitWhileArriving(() => ledger.verdict().lost.length);
  const { lost, misplaced, waits } = ledger.verdict();
  t.same({ lost, misplaced }, { lost: [], misplaced: [] }, `${waits.length} webhooks acknowledged`);
  t.equal(refused, 0, 'the APIs accept webhooks while there is no primary');

  const { pool, close } = openPool(trial.database.url, { name: 'test', connections: 1, onError: () => undefined });
  t.teardown(close);
  const { rows } = await pool.query(`SELECT value FROM installation_storage WHERE key = 'count'`);
  t.equal(new Set(counts).size, counts.length, 'no number is answered twice');
  t.ok(Number(rows[0]?.value) >= Math.max(...counts), `${rows[0]?.value} stored, ${counts.length} answered`);
});
