/** Steps of turns, messages and reminders meet the clear, the deletion or a summary of their session: none is lost, and none deadlocks. */
import type { PoolClient } from 'pg';
import t from 'tap';
import { releaseMediaOfSession, saveMedia } from '../../../db/accounts/media.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { advanceReminder, insertReminder } from '../../../db/sessions/reminders.ts';
import { appendMessages, clearSession } from '../../../db/sessions/sessions.ts';
import { addSummary, findSummary, listOldestModelMessages } from '../../../db/sessions/summaries.ts';
import { claimTurnCall } from '../../../db/sessions/tool-calls.ts';
import { addPiece, passPiece } from '../../../db/sessions/turn-outputs.ts';
import { findTurn, openJudgedTurn } from '../../../db/sessions/turns.ts';
import { during } from '../../fixtures/lock-waits.ts';
import { testDatabase } from '../../runner/harness.ts';
import { listCases } from '../../runner/soak.ts';
import { openTurn } from './open-turn.ts';

const { pool } = await testDatabase(t);

const removals: Readonly<Record<string, (tx: PoolClient, sessionId: string) => Promise<unknown>>> = {
  cleared: clearSession,
  deleted: (tx, sessionId) => tx.query('DELETE FROM sessions WHERE id = $1', [sessionId]),
};
/** A call and a piece that begin a step, with and without a renewal of the lease. */
const runtimes = { 'that holds the turn': 'r', 'that takes over an expired lease': 'other' };

for (const [removed, remove] of listCases(removals, 'cleared'))
  for (const [which, runtime] of Object.entries(runtimes))
    t.test(`a session is ${removed} during a step of a runtime ${which}`, async (t) => {
      const { sessionId } = await openTurn(pool);
      const lease = runtime === 'r' ? '1 hour' : '-1 second';
      const sql = `UPDATE turns SET state = 'open', lease_until = now() + $2::interval WHERE session_id = $1`;
      await pool.query(sql, [sessionId, lease]);
      const key = { sessionId, turnId: 't' };
      const [isClaimed, fate] = await during(
        pool,
        (tx) => remove(tx, sessionId),
        () => claimTurnCall(pool, { ...key, callId: 'c', digest: '' }, { runtime, name: 'x', sortedDigest: '' }),
        () => addPiece(pool, { ...key, outputId: 'o' }, runtime, { piece: 0, text: 'hello', mode: 'none' }),
      );
      t.equal(isClaimed, false);
      t.equal(fate, null);
      for (const table of ['tool_calls', 'turn_outputs', 'turn_pieces'])
        t.equal((await pool.query(`SELECT 1 FROM ${table}`)).rowCount, 0, table);
    });

t.test('a message that opens a turn while its session is cleared comes after the clear', async (t) => {
  const { sessionId } = await openTurn(pool);
  const turn = { id: 'later', sender: 'user', trigger: 'user', digest: '', systemPrompt: '', model: '' } as const;
  const judgement = { hook: 'inboundMessage', outcome: 'unchanged' as const, reason: null, by: [], asked: 1 };
  await during(
    pool,
    (tx) => clearSession(tx, sessionId),
    () =>
      openJudgedTurn(pool, sessionId, { ...turn, runtime: 'r', leaseSeconds: 100 }, judgement, {
        text: 'hi',
        data: {},
        mediaIds: [],
      }),
  );
  t.match(await findTurn(pool, { sessionId, turnId: 'later' }), { state: 'open', message: { text: 'hi' } });
  t.match(await findTurn(pool, { sessionId, turnId: 't' }), { state: 'cleared' });
});

t.test('a message with a file opens no turn if the file goes while the message waits for a clear', async (t) => {
  const { accountId, sessionId } = await openTurn(pool);
  const blob = { sha256: 'a'.repeat(64), sizeBytes: 1 };
  const file = { ...blob, accountId, holder: { sessionId }, mediaType: 'text/plain', name: null };
  const saved = await saveMedia(pool, file, { bytes: 10, files: 10 });
  const turn = { sender: 'user', trigger: 'user', digest: '', systemPrompt: '', model: '' } as const;
  const judgement = { hook: 'inboundMessage', outcome: 'unchanged' as const, reason: null, by: [], asked: 1 };
  const message = { text: 'hi', data: {}, mediaIds: [saved?.id ?? ''] };
  const open = (id: string) =>
    openJudgedTurn(pool, sessionId, { ...turn, id, runtime: 'r', leaseSeconds: 100 }, judgement, message);
  t.match(await open('before'), { state: 'open' });
  const [opened] = await during(
    pool,
    async (tx) => {
      await clearSession(tx, sessionId);
      await releaseMediaOfSession(tx, sessionId);
    },
    () => open('later'),
  );
  t.equal(opened, null);
  t.equal(await findTurn(pool, { sessionId, turnId: 'later' }), null);
});

for (const before of [['first'], []])
  t.test(
    `a message that commits while a summary of later ones is added, after ${before.length}, stays in the prompt`,
    async (t) => {
      const { sessionId } = await openTurn(pool);
      const append = (text: string) => (tx: PoolClient) => appendMessages(tx, sessionId, [{ role: 'user', text }]);
      const session = { id: sessionId, strict: false };
      for (const text of before) await inTransaction(pool, append(text));
      await during(
        pool,
        async (tx) => {
          await append('slow')(tx);
          await inTransaction(pool, append('last'));
        },
        async () => {
          const messages = await listOldestModelMessages(pool, session, 10);
          t.same(
            messages.map(({ text }) => text),
            [...before, 'last'],
          );
          await addSummary(pool, session, { text: 'both', installationId: 'i', previous: null, messages });
        },
      );
      const left = await listOldestModelMessages(pool, session, 10);
      t.same(
        left.map(({ text }) => text),
        [...before, 'slow', 'last'],
      );
      t.equal(await findSummary(pool, sessionId), null, 'it would replace a message that it does not cover');
    },
  );

t.test('a piece is judged while its session is cleared', async (t) => {
  const { sessionId } = await openTurn(pool);
  await pool.query(`UPDATE turns SET state = 'open' WHERE session_id = $1`, [sessionId]);
  const key = { sessionId, turnId: 't', outputId: 'o' };
  await addPiece(pool, key, 'r', { piece: 0, text: 'hello', mode: 'pieces' });
  const judgement = { hook: 'outboundMessage', outcome: 'unchanged' as const, reason: null, by: [], asked: 1 };
  await during(
    pool,
    (tx) => tx.query('SELECT 1 FROM turn_pieces WHERE session_id = $1 FOR UPDATE', [sessionId]),
    () => passPiece(pool, key, { piece: 0, text: 'hello', growth: 0, judgement, guards: '' }),
    () => inTransaction(pool, (tx) => clearSession(tx, sessionId)),
  );
  t.equal((await pool.query('SELECT 1 FROM turn_outputs')).rowCount, 0);
});

t.test('a reminder comes while its session is deleted', async (t) => {
  const { sessionId } = await openTurn(pool);
  const fields = {
    text: 'x',
    to: 'agent',
    zone: 'UTC',
    repeat: null,
    startsAt: new Date(0).toISOString(),
    remaining: 1,
  };
  const added = { digest: '', maxReminders: 1 };
  const reminder = await insertReminder(pool, { sessionId, reminderId: 'x' }, fields, added);
  t.ok(reminder);
  if (!reminder) return;
  const deliver = () =>
    inTransaction(pool, async (tx) => {
      const isDue = await advanceReminder(tx, reminder, { nextAt: null, remaining: 0, outcome: 'delivered' });
      if (isDue) await appendMessages(tx, sessionId, [{ role: 'user', text: 'x' }]);
      return isDue;
    });
  const [isDelivered] = await during(
    pool,
    (tx) => tx.query('SELECT 1 FROM reminders WHERE session_id = $1 FOR UPDATE', [sessionId]),
    deliver,
    () => pool.query('DELETE FROM sessions WHERE id = $1', [sessionId]),
  );
  t.equal(isDelivered, true);
  t.equal(await deliver(), false);
});
