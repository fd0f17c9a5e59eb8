/** The code of a sign-in link is used up together with the start of its session. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { createSignInCode, findSession, redeemSignInCode } from '../../../db/accounts/console-sessions.ts';
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
