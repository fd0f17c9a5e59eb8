import t from 'tap';
import { findOrCreateAccount, setOperator } from '../../db/accounts/accounts.ts';
import { openSignIn } from '../../service/identity/sign-in.ts';
import { InvalidTokenError, type TokenVerifier } from '../../service/identity/tokens.ts';
import { testDatabase } from '../runner/harness.ts';

const { pool } = await testDatabase(t);

t.test('an account is made once, also when it is first seen many times at once', async (t) => {
  const accounts = await Promise.all(Array.from({ length: 20 }, () => findOrCreateAccount(pool, 'ann')));
  t.equal(new Set(accounts.map(({ id }) => id)).size, 1);
  t.match(accounts[0], { name: 'ann', operator: false, verifiedAt: null, createdAt: /^\d{4}-\d\d-\d\dT/ });
  t.not((await findOrCreateAccount(pool, 'Ann')).id, accounts[0]?.id, 'names are exact');
  await setOperator(pool, accounts[0]?.id ?? '', true);
  t.equal((await findOrCreateAccount(pool, 'ann')).operator, true);
});

t.test('a verified token is cached until its expiry at most; a rejected one is verified again', async (t) => {
  let time = 1_000_000;
  const asked: string[] = [];
  const verifier: TokenVerifier = {
    async verify(token) {
      asked.push(token);
      if (token === 'bad') throw new InvalidTokenError('no');
      return { subject: token, expiresAt: token === 'short' ? time + 5_000 : time + 1e9 };
    },
  };
  const { signIn } = openSignIn(pool, verifier, () => time);
  const [one, two] = await Promise.all([signIn('long'), signIn('long')]);
  t.equal(one.id, two.id);
  await signIn('short');
  time += 10_000;
  await signIn('long');
  await signIn('short');
  time += 25_000;
  await signIn('long');
  t.same(asked, ['long', 'short', 'short', 'long']);
  await t.rejects(signIn('bad'), InvalidTokenError);
  await t.rejects(signIn('bad'), InvalidTokenError);
  t.equal(asked.filter((token) => token === 'bad').length, 2);
});
