/** Tokens are listed, named and revoked, accounts suspended, operators demoted: at once, in every process. */
import { Readable } from 'node:stream';
import t from 'tap';
import { findOrCreateAccount, lockAccount, setOperator } from '../../../db/accounts/accounts.ts';
import { addDelegation } from '../../../db/accounts/delegations.ts';
import { revokeAllTokens } from '../../../db/accounts/issued-tokens.ts';
import { listActions } from '../../../db/accounts/operator-actions.ts';
import { type Listener, openListener } from '../../../db/postgres/listener.ts';
import { subscribeToAccounts } from '../../../db/postgres/notifications.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { issueSignInLink } from '../../../service/identity/console-sessions.ts';
import { SignIn } from '../../../service/identity/sign-in.ts';
import { openVerifier } from '../../../service/identity/tokens.ts';
import { untilLockIsAwaited } from '../../fixtures/lock-waits.ts';
import { type Answer, type Client, startApiFixture } from '../api-fixture.ts';
import { fileList, introspectsMinimal, MINIMAL } from '../package/packages.ts';

/** Runs while a package is built. */
let duringBuild = (): Promise<unknown> => Promise.resolve();
const api = await startApiFixture(t, {
  introspect: async () => {
    await duringBuild();
    return introspectsMinimal();
  },
});
await setOperator(api.pool, (await findOrCreateAccount(api.pool, 'olga')).id, true);
const olga = await api.signIn('olga', 'laptop');

/** Another process with the same database, which has verified the token before. */
const listener = await openListener(api.pool, () => undefined);
t.teardown(() => listener.close());
const verifier = await openVerifier({ DATA_DIR: api.dataDir, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
const elsewhere = new SignIn(api.pool, verifier);
await elsewhere.follow(listener);
const stateElsewhere = ({ token }: Client) =>
  elsewhere.signIn(token).then(
    ({ operator }) => (operator ? 'operator' : 'user'),
    (error: Error) => ('code' in error ? error.code : error.name),
  );

/** Only a suspension has a body. */
const bodyOf = (word: string) => (word === 'suspend' ? { reason: 'x' } : undefined);

async function nextChange(listener: Listener): Promise<{ readonly seen: Promise<unknown> }> {
  const { promise, resolve } = Promise.withResolvers<string>();
  await subscribeToAccounts(listener, resolve, () => undefined);
  return { seen: promise };
}

/** Makes a change, and waits until both processes have heard of it. */
async function change(work: () => Promise<Answer>): Promise<Answer> {
  const changes = [await nextChange(api.services.listener), await nextChange(listener)];
  const startedAt = performance.now();
  const answer = await work();
  await Promise.all(changes.map(({ seen }) => seen));
  const ms = performance.now() - startedAt;
  if (ms > 10_000) throw new Error(`it took ${ms} ms`);
  return answer;
}

t.test('a user lists, renames and revokes tokens; the others keep working', async (t) => {
  const [laptop, runtime] = [await api.signIn('ann', 'laptop'), await api.signIn('ann', 'runtime')];
  const { items } = (await laptop.get('/me/tokens')).body;
  t.match(items, [
    { name: 'runtime', current: false, lastUsedAt: null },
    { name: 'laptop', current: true, lastUsedAt: /^\d{4}-/, expiresAt: /^\d{4}-/ },
  ]);
  const [{ id }] = items;
  t.match((await laptop.patch(`/me/tokens/${id}`, { name: 'baker' })).body, { id, name: 'baker' });
  t.match((await laptop.patch(`/me/tokens/${id}`, { name: 'b\u202e' })).body.detail, /name: contains U\+202E/);
  t.equal(await stateElsewhere(runtime), 'user');
  t.match((await runtime.get('/me/tokens')).body.items[0], { name: 'baker', current: true, lastUsedAt: /^\d{4}-/ });
  t.equal((await change(() => laptop.delete(`/me/tokens/${id}`))).status, 204);
  t.equal((await runtime.get('/me')).status, 401);
  t.equal(await stateElsewhere(runtime), 'InvalidTokenError');
  t.equal((await laptop.get('/me')).status, 200);
  t.equal((await laptop.delete(`/me/tokens/${id}`)).status, 404);
});

t.test('all tokens are revoked, also those without a record', async (t) => {
  const [old, recorded] = [await api.user('bea'), await api.signIn('bea', 'laptop')];
  t.equal((await old.get('/me')).status, 200, 'a token from before the records works');
  t.same((await old.get('/me/tokens')).body.items.length, 1);
  t.equal((await change(() => recorded.delete('/me/tokens'))).status, 204);
  for (const client of [old, recorded]) t.equal((await client.get('/me')).status, 401);
  t.equal((await (await api.signIn('bea', 'another')).get('/me')).status, 200, 'a later one works');
});

t.test('with all tokens, sign-in links and delegations end, which would give new ones', async (t) => {
  const cara = await api.signIn('cara', 'laptop');
  const { id: accountId } = await findOrCreateAccount(api.pool, 'cara');
  await issueSignInLink(api.pool, accountId, 'http://localhost');
  const helpdesk = { name: 'Helpdesk', issuer: 'https://idp', subject: 's', scopes: ['sessions:write'] };
  await addDelegation(api.pool, { id: accountId, tokenId: null, tokensAfter: null }, helpdesk, 10);
  t.equal((await change(() => cara.delete('/me/tokens'))).status, 204);
  const links = await api.pool.query('SELECT 1 FROM sign_in_codes WHERE account_id = $1', [accountId]);
  t.equal(links.rows.length, 0);
  const later = await api.signIn('cara', 'another');
  t.same((await later.get('/me/delegations')).body.items, []);
  t.match((await later.get('/me/actions')).body.items[0], {
    action: 'delegation.remove',
    subject: 'Helpdesk',
    detail: 'all tokens were revoked',
  });
});

/** Sends a request whose body ends after `meanwhile`. */
async function sendSlowly(client: Client, path: string, body: object, meanwhile: () => Promise<unknown>) {
  const text = JSON.stringify(body);
  const payload = async function* () {
    yield text.slice(0, 1);
    await meanwhile();
    yield text.slice(1);
  };
  const headers = { 'content-type': 'application/json', 'content-length': String(text.length) };
  return client.send({ method: 'POST', url: `/api${path}`, headers, payload: Readable.from(payload()) });
}

t.test('a request whose token is revoked before its body ends changes nothing', async (t) => {
  const [thief, dan] = [await api.signIn('dan', 'stolen'), await api.signIn('dan', 'laptop')];
  await thief.get('/me');
  const revoke = () => change(() => dan.delete('/me/tokens'));
  t.equal((await sendSlowly(thief, '/plugins', { slug: 'late', displayName: 'Late' }, revoke)).status, 401);
  t.same((await (await api.signIn('dan', 'another')).get('/plugins')).body.items, []);
});

t.test('an operator who is demoted before the body of a request ends cannot appoint themselves again', async (t) => {
  const jay = await api.signIn('jay', 'laptop');
  await jay.get('/me');
  await change(() => olga.post('/operator/accounts/jay/appoint'));
  t.equal((await jay.get('/operator/accounts')).status, 200);
  const demote = () => change(() => olga.post('/operator/accounts/jay/demote'));
  t.equal((await sendSlowly(jay, '/operator/accounts/jay/appoint', {}, demote)).body.code, 'operators_only');
  t.equal((await jay.get('/operator/accounts')).body.code, 'operators_only');
});

t.test(
  'a service is added neither during nor after a revocation of all tokens that its request did not see',
  async (t) => {
    const { id, tokensAfter } = await findOrCreateAccount(api.pool, 'fay');
    const service = { name: 'Mine', issuer: 'https://idp', subject: 's', scopes: ['sessions:write'] };
    const add = () => addDelegation(api.pool, { id, tokensAfter, tokenId: null }, service, 10);
    const adding = await inTransaction(api.pool, async (tx) => {
      await lockAccount(tx, id);
      const revoked = revokeAllTokens(api.pool, id, null);
      await untilLockIsAwaited(api.pool);
      const added = add();
      added.catch(() => undefined);
      await untilLockIsAwaited(api.pool, 2);
      return { revoked, added };
    });
    await adding.revoked;
    await t.rejects(adding.added, { code: 'unauthenticated' });
    await t.rejects(add(), { code: 'unauthenticated' });
    const current = await findOrCreateAccount(api.pool, 'fay');
    t.match(await addDelegation(api.pool, { ...current, tokenId: null }, service, 10), { name: 'Mine' });
  },
);

t.test('a package whose author is suspended while it is built is not published', async (t) => {
  const gil = await api.signIn('gil', 'laptop');
  const { id } = (await gil.post('/plugins', { slug: 'sudden', displayName: 'Sudden' })).body;
  duringBuild = () => change(() => olga.post('/operator/accounts/gil/suspend', { reason: 'it sends spam' }));
  t.teardown(() => {
    duringBuild = () => Promise.resolve();
  });
  const published = await gil.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
  t.equal(published.body.code, 'account_suspended');
  await change(() => olga.post('/operator/accounts/gil/resume'));
  t.same((await gil.get(`/plugins/${id}`)).body.versions, []);
});

t.test('a user sees and changes their own tokens only', async (t) => {
  const [ann, bob] = [await api.signIn('ann', 'a'), await api.signIn('bob', 'b')];
  const { id } = (await ann.get('/me/tokens')).body.items[0];
  t.equal((await bob.patch(`/me/tokens/${id}`, { name: 'mine' })).status, 404);
  t.equal((await bob.delete(`/me/tokens/${id}`)).status, 404);
  for (const path of ['/operator/accounts', '/operator/accounts/ann/tokens'])
    t.equal((await bob.get(path)).body.code, 'operators_only');
  for (const word of ['suspend', 'resume', 'appoint', 'demote'])
    t.equal((await bob.post(`/operator/accounts/ann/${word}`, bodyOf(word))).body.code, 'operators_only');
  for (const path of [`/operator/accounts/ann/tokens/${id}`, '/operator/accounts/ann/tokens'])
    t.equal((await bob.delete(path)).body.code, 'operators_only');
  t.equal((await ann.get('/me')).status, 200);
});

t.test('a suspended account is refused with the reason until it is resumed', async (t) => {
  const cyd = await api.signIn('cyd', 'laptop');
  t.equal(await stateElsewhere(cyd), 'user');
  t.match((await olga.post('/operator/accounts/cyd/suspend')).body.detail, /^reason: must state the reason/);
  const { body } = await change(() => olga.post('/operator/accounts/cyd/suspend', { reason: 'it sends spam' }));
  t.match(body, {
    name: 'cyd',
    issuer: 'bulkhead',
    operator: false,
    verified: false,
    suspendedReason: 'it sends spam',
  });
  t.equal(await stateElsewhere(cyd), 'account_suspended');
  t.equal((await cyd.get('/me')).status, 403);
  const detail = 'The operator suspended your account: it sends spam';
  t.match((await cyd.get('/me')).body, { code: 'account_suspended', detail });
  t.equal((await (await api.user('cyd')).get('/me')).status, 403, 'a new token is refused as well');
  t.match((await olga.get('/operator/accounts?name=CY')).body.items, [{ name: 'cyd', suspendedReason: /spam/ }]);
  t.equal((await change(() => olga.post('/operator/accounts/cyd/resume'))).body.suspendedReason, null);
  t.equal(await stateElsewhere(cyd), 'user');
  t.equal((await cyd.get('/me')).status, 200);
});

t.test('an operator is appointed and demoted by another, and not by themselves', async (t) => {
  const dan = await api.signIn('dan', 'laptop');
  t.equal(await stateElsewhere(dan), 'user');
  t.match((await change(() => olga.post('/operator/accounts/dan/appoint'))).body, { name: 'dan', operator: true });
  t.equal(await stateElsewhere(dan), 'operator');
  t.equal((await dan.get('/operator/accounts')).status, 200);
  t.match((await change(() => olga.post('/operator/accounts/dan/demote'))).body, { operator: false });
  t.equal(await stateElsewhere(dan), 'user');
  t.equal((await dan.get('/operator/accounts')).body.code, 'operators_only');
  for (const word of ['demote', 'suspend'])
    t.match((await olga.post(`/operator/accounts/olga/${word}`, bodyOf(word))).body.detail, /yourself/, word);
  for (const word of ['suspend', 'resume', 'appoint', 'demote'])
    t.equal((await olga.post(`/operator/accounts/nobody/${word}`, bodyOf(word))).status, 404, word);
});

t.test('an operator revokes tokens of others, and every action is recorded', async (t) => {
  const [one, other] = [await api.signIn('eve', 'one'), await api.signIn('eve', 'other')];
  const { items } = (await olga.get('/operator/accounts/eve/tokens')).body;
  t.match(items, [
    { name: 'other', current: false },
    { name: 'one', current: false },
  ]);
  t.equal((await change(() => olga.delete(`/operator/accounts/eve/tokens/${items[1].id}`))).status, 204);
  t.equal((await olga.delete(`/operator/accounts/eve/tokens/${items[1].id}`)).status, 404);
  t.equal((await one.get('/me')).status, 401);
  t.equal((await other.get('/me')).status, 200);
  t.equal((await change(() => olga.delete('/operator/accounts/eve/tokens'))).status, 204);
  t.equal((await other.get('/me')).status, 401);
  const author = 'olga (REST)';
  t.match(await listActions(api.pool, 6), [
    { by: author, action: 'revoke-token', subject: 'eve', reason: 'all tokens' },
    { by: author, action: 'revoke-token', subject: 'eve', reason: 'the token “one”' },
    { by: author, action: 'demote', subject: 'dan' },
    { by: author, action: 'appoint', subject: 'dan' },
    { by: author, action: 'resume', subject: 'cyd' },
    { by: author, action: 'suspend', subject: 'cyd', reason: 'it sends spam' },
  ]);
});
