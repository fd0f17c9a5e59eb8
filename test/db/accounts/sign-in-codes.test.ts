/** The code of a sign-in link is used up together with the start of its session. */
import t from 'tap';
import { BUILT_IN_ISSUER, findOrCreateAccount, moveAccounts } from '../../../db/accounts/accounts.ts';
import {
  createSignInCode,
  endAllSessions,
  findSession,
  redeemSignInCode,
} from '../../../db/accounts/console-sessions.ts';
import { during } from '../../fixtures/lock-waits.ts';
import { testDatabase } from '../../runner/harness.ts';

t.test('a link still works after an attempt whose session could not be stored', async (t) => {
  const { pool } = await testDatabase(t);
  const { id: accountId } = await findOrCreateAccount(pool, 'ann');
  const expiresAt = new Date(Date.now() + 60_000);
  for (const id of ['first', 'second']) await createSignInCode(pool, { id, accountId, expiresAt });
  t.equal(await redeemSignInCode(pool, 'first', { id: 'session', expiresAt }), true);
  t.match(await findSession(pool, 'session'), { subject: 'ann', tokenId: null });
  await t.rejects(redeemSignInCode(pool, 'second', { id: 'session', expiresAt }), /duplicate key/);
  t.equal(await redeemSignInCode(pool, 'second', { id: 'other', expiresAt }), true);
  t.equal(await redeemSignInCode(pool, 'second', { id: 'third', expiresAt }), false, 'once');
});

t.test('a session that begins with a link while all sessions are ended is ended, too', async (t) => {
  const { pool } = await testDatabase(t);
  const { id: accountId } = await findOrCreateAccount(pool, 'ann');
  const expiresAt = new Date(Date.now() + 60_000);
  await createSignInCode(pool, { id: 'link', accountId, expiresAt });
  await during(
    pool,
    async (tx) => {
      await tx.query(`DELETE FROM sign_in_codes WHERE id = 'link'`);
      await tx.query(`INSERT INTO console_sessions (id, account_id, expires_at) VALUES ('s', $1, $2)`, [
        accountId,
        expiresAt,
      ]);
    },
    () => endAllSessions(pool, accountId),
  );
  t.equal(await findSession(pool, 's'), null);
});

t.test('a link that is used while its account is moved does not sign in', async (t) => {
  const { pool } = await testDatabase(t);
  const { id: accountId } = await findOrCreateAccount(pool, 'ann');
  const expiresAt = new Date(Date.now() + 60_000);
  await createSignInCode(pool, { id: 'link', accountId, expiresAt });
  const done = await during(
    pool,
    (tx) => tx.query('SELECT FROM accounts WHERE id = $1 FOR UPDATE', [accountId]),
    () => moveAccounts(pool, { from: BUILT_IN_ISSUER, to: 'https://one.example' }, ['ann']),
    () => redeemSignInCode(pool, 'link', { id: 'session', expiresAt }),
  );
  t.same(done, [{ moved: ['ann'], displaced: [] }, false]);
});
