/** The console's cookie: what it is exchanged for, which requests it counts on, and how it ends. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { revokeToken } from '../../../db/accounts/issued-tokens.ts';
import { changeSuspension } from '../../../db/accounts/moderation.ts';
import { openKeyFiles } from '../../../db/files/key-files.ts';
import { revokeKeys } from '../../../db/files/recorded-keys.ts';
import {
  issueSignInLink,
  openConsoleSessions,
  sessionCredential,
  withConsoleSessions,
} from '../../../service/identity/console-sessions.ts';
import { issueRecordedToken } from '../../../service/identity/recorded-tokens.ts';
import { SignIn } from '../../../service/identity/sign-in.ts';
import { InvalidTokenError, openIssuer, openVerifier } from '../../../service/identity/tokens.ts';
import { eventually } from '../../runner/eventually.ts';
import { type Answer, startApiFixture } from '../api-fixture.ts';

const OWN = 'http://localhost:4000';
const HEADER = { 'x-bulkhead-console': '1' };
const api = await startApiFixture(t, { readsInProcess: true });
const { token } = await api.user('ann');

interface Sent {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly path?: string;
  readonly headers?: Record<string, string>;
  readonly body?: object;
}

async function send({ method = 'GET', path = '/me', headers = {}, body }: Sent): Promise<Answer> {
  const answer = await api.app.inject({
    method,
    url: `/api${path}`,
    headers: { host: 'localhost:4000', ...headers },
    ...(body === undefined ? {} : { payload: body }),
  });
  return { status: answer.statusCode, headers: answer.headers, body: answer.body === '' ? null : answer.json() };
}

const signIn = (body: object, headers: Record<string, string> = { ...HEADER, origin: OWN }): Promise<Answer> =>
  send({ method: 'POST', path: '/sign-in', headers, body });

async function startSession(): Promise<string> {
  const { status, headers } = await signIn({ token });
  t.equal(status, 200);
  return String(headers['set-cookie']).split(';')[0] ?? '';
}

t.test('a token is exchanged for a cookie that scripts cannot read and other sites cannot send', async (t) => {
  const { body, headers } = await signIn({ token });
  t.match(body, { name: 'ann', operator: false });
  const cookie = String(headers['set-cookie']);
  t.match(cookie, /^bulkhead-session-4000=[\w-]{43}; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Strict$/);
  t.notMatch(cookie, token);
  const stored = await api.pool.query('SELECT id FROM console_sessions');
  t.notOk(
    stored.rows.some(({ id }) => cookie.includes(id)),
    'the database has only a hash',
  );
});

t.test('what is no valid proof, or comes from elsewhere, gets no cookie', async (t) => {
  const cases: readonly [string, object, Record<string, string>, number][] = [
    ['a wrong token', { token: `${token}x` }, { ...HEADER, origin: OWN }, 401],
    ['a credential that is no token', { token: 'session:abc' }, { ...HEADER, origin: OWN }, 401],
    ['an unknown code', { code: 'abc' }, { ...HEADER, origin: OWN }, 401],
    ['both', { token, code: 'abc' }, { ...HEADER, origin: OWN }, 400],
    ['neither', {}, { ...HEADER, origin: OWN }, 400],
    ['another origin', { token }, { ...HEADER, origin: 'http://localhost:5000' }, 400],
    ['no origin', { token }, HEADER, 400],
    ['a form', { token }, { origin: OWN }, 400],
  ];
  for (const [title, body, headers, status] of cases) {
    const answer = await signIn(body, headers);
    t.equal(answer.status, status, title);
    t.equal(answer.headers['set-cookie'], undefined, title);
  }
});

t.test('the cookie counts only on requests of the console’s pages', async (t) => {
  const cookie = await startSession();
  const own = { ...HEADER, cookie };
  const cases: readonly [string, Sent, number][] = [
    ['a read of its own page', { headers: own }, 200],
    ['with the browser’s word', { headers: { ...own, 'sec-fetch-site': 'same-origin' } }, 200],
    ['among other cookies', { headers: { ...own, cookie: `a=b; ${cookie}; c=d` } }, 200],
    ['a read without the header', { headers: { cookie } }, 401],
    ['a read of another site', { headers: { ...own, 'sec-fetch-site': 'same-site' } }, 401],
    ['a read of another origin', { headers: { ...own, origin: 'https://evil.example' } }, 401],
    ['an opaque origin', { headers: { ...own, origin: 'null' } }, 401],
    ['another port', { headers: { ...own, origin: 'http://localhost:4010' } }, 401],
    ['a cookie of another service', { headers: { ...HEADER, cookie: cookie.replace('4000', '5000') } }, 401],
    ['a wrong token beside it', { headers: { ...own, authorization: 'Bearer abc' } }, 401],
    ['no token at all beside it', { headers: { ...own, authorization: 'Basic abc' } }, 401],
    ['the secret as a token', { headers: { authorization: `Bearer ${cookie.split('=')[1]}` } }, 401],
  ];
  for (const [title, sent, status] of cases) t.equal((await send(sent)).status, status, title);
  const change = { method: 'POST', path: '/plugins', body: { slug: 'by-cookie', displayName: 'By cookie' } } as const;
  t.equal((await send({ ...change, headers: own })).status, 401, 'a change without Origin');
  t.equal(
    (await send({ ...change, headers: { ...own, origin: 'http://evil.example' } })).status,
    401,
    'of another page',
  );
  t.equal((await send({ ...change, headers: { ...own, origin: OWN } })).status, 201, 'of its own page');
});

t.test('a sign-in link works once, and for five minutes', async (t) => {
  const { id } = await findOrCreateAccount(api.pool, 'bob');
  const code = async () => (await issueSignInLink(api.pool, id, OWN)).replace(`${OWN}/#code=`, '');
  const first = await code();
  const answers = await Promise.all(Array.from({ length: 10 }, () => signIn({ code: first })));
  t.same(answers.map(({ status }) => status).sort(), [200, ...Array(9).fill(401)]);
  t.match(answers.find(({ status }) => status === 401)?.body.detail, /used before or is older than five minutes/);
  const late = await code();
  await api.pool.query(`UPDATE sign_in_codes SET expires_at = expires_at - interval '5 minutes'`);
  t.equal((await signIn({ code: late })).status, 401);
});

t.test('an account has a bounded number of sessions: the oldest end', async (t) => {
  const { id } = await findOrCreateAccount(api.pool, 'dora');
  const dora = await api.user('dora');
  await api.pool.query(
    `INSERT INTO console_sessions (id, account_id, created_at, expires_at)
     SELECT 'dora-' || n, $1, now() - make_interval(mins => n), now() + interval '1 h' FROM generate_series(1, 1001) n`,
    [id],
  );
  t.equal((await signIn({ token: dora.token })).status, 200);
  const { rows } = await api.pool.query(
    `SELECT count(*)::int AS count, bool_or(id = 'dora-999') AS newer, bool_or(id = 'dora-1000') AS older
       FROM console_sessions WHERE account_id = $1`,
    [id],
  );
  t.same(rows, [{ count: 1_000, newer: true, older: false }]);
});

t.test('sessions of one token end none of others', async (t) => {
  const { id } = await findOrCreateAccount(api.pool, 'gil');
  const gil = await api.signIn('gil', 'laptop');
  await api.pool.query(
    `INSERT INTO console_sessions (id, account_id, created_at, expires_at)
     SELECT 'gil-' || n, $1, now() - interval '1 h', now() + interval '1 h' FROM generate_series(1, 1000) n`,
    [id],
  );
  t.equal((await signIn({ token: gil.token })).status, 200);
  const { rows } = await api.pool.query('SELECT 1 FROM console_sessions WHERE account_id = $1', [id]);
  t.equal(rows.length, 1_001);
});

t.test('a session ends with its token and is refused with its account, at once', async (t) => {
  const bob = await api.user('bob');
  const own = {
    ...HEADER,
    cookie: String((await signIn({ token: bob.token })).headers['set-cookie']).split(';')[0] ?? '',
  };
  const until = (status: number) => eventually(async () => (await send({ headers: own })).status === status);
  await changeSuspension(api.pool, 'bob', 'spam', null);
  await until(403);
  await changeSuspension(api.pool, 'bob', null, null);
  await until(200);
  t.equal((await bob.delete('/me/tokens')).status, 204);
  await until(401);
  const issuer = await openIssuer(api.dataDir);
  const recorded = await issueRecordedToken(api.pool, issuer, { subject: 'carol', name: 'laptop' });
  own.cookie = String((await signIn({ token: recorded })).headers['set-cookie']).split(';')[0] ?? '';
  await until(200);
  const { body: tokens } = await send({ path: '/me/tokens', headers: own });
  const revoked = { method: 'DELETE', path: `/me/tokens/${tokens.items[0].id}` } as const;
  t.equal((await send({ ...revoked, headers: { authorization: `Bearer ${recorded}` } })).status, 204);
  await until(401);
});

t.test('the cookie is enough to end its session, also of a suspended account', async (t) => {
  const dan = await api.user('dan');
  const own = {
    ...HEADER,
    origin: OWN,
    cookie: String((await signIn({ token: dan.token })).headers['set-cookie']).split(';')[0] ?? '',
  };
  const leave = (body: object) => send({ method: 'POST', path: '/sign-out', headers: own, body });
  await changeSuspension(api.pool, 'dan', 'spam', null);
  await eventually(async () => (await send({ headers: own })).status === 403);
  t.match(await leave({ everywhere: true }), { status: 403, body: { code: 'account_suspended' } });
  const out = await leave({});
  t.equal(out.status, 204);
  t.match(out.headers['set-cookie'], /^bulkhead-session-4000=; Max-Age=0;/);
  await changeSuspension(api.pool, 'dan', null, null);
  await eventually(async () => (await send({ headers: own })).status === 401);
  t.equal((await leave({})).status, 204, 'a session that has ended needs no end');
  t.equal((await leave({ everywhere: true })).status, 401);
  t.match(await leave({ everywere: true }), { status: 400, body: { detail: /everywhere/ } });
  const { cookie: _, ...without } = own;
  t.equal((await send({ method: 'POST', path: '/sign-out', headers: without })).status, 401, 'no cookie and no token');
});

t.test('a session ends here or everywhere, and with its time; tokens stay', async (t) => {
  const verifier = withConsoleSessions(api.pool, await openVerifier({ DATA_DIR: api.dataDir }));
  const isActive = (cookie: string): Promise<boolean> =>
    verifier.verify(sessionCredential(cookie.split('=')[1] ?? '')).then(
      () => true,
      () => false,
    );
  const [one, two, three] = [await startSession(), await startSession(), await startSession()];
  const leave = (cookie: string, body: object) =>
    send({ method: 'POST', path: '/sign-out', headers: { ...HEADER, cookie, origin: OWN }, body });
  const out = await leave(one, {});
  t.equal(out.status, 204);
  t.match(out.headers['set-cookie'], /^bulkhead-session-4000=; Max-Age=0;/);
  t.same([await isActive(one), await isActive(two), await isActive(three)], [false, true, true]);
  t.equal((await leave(two, { everywhere: true })).status, 204);
  t.same([await isActive(two), await isActive(three)], [false, false]);
  const last = await startSession();
  await api.pool.query('UPDATE console_sessions SET expires_at = now()');
  t.notOk(await isActive(last));
  t.equal((await send({ headers: { authorization: `Bearer ${token}` } })).status, 200);
});

t.test('a token that is revoked while it is exchanged begins no session', async (t) => {
  const token = await issueRecordedToken(api.pool, await openIssuer(api.dataDir), { subject: 'eve', name: 'laptop' });
  const tokens = await openVerifier({ DATA_DIR: api.dataDir });
  const { tokenId } = await tokens.verify(token);
  class RevokedAfterwards extends SignIn {
    override async signIn(token: string): ReturnType<SignIn['signIn']> {
      const account = await super.signIn(token);
      t.ok(await revokeToken(api.pool, account.id, String(tokenId), null));
      return account;
    }
  }
  const signIn = new RevokedAfterwards(api.pool, tokens);
  const sessions = openConsoleSessions({ pool: api.pool, tokens, signIn, consoleClient: null, lifetimeMs: 60_000 });
  await t.rejects(sessions.start(token), new InvalidTokenError('the token was revoked'));
});

// The last: the key signs the tokens of all tests.
t.test('a session ends when the key that signed its token is revoked, and the token begins no other', async (t) => {
  const headers = { ...HEADER, cookie: await startSession() };
  t.equal((await send({ headers })).status, 200);
  await revokeKeys(api.pool, [...(await openKeyFiles(api.dataDir).list('identity')).keys()]);
  await eventually(async () => (await send({ headers })).status === 401);
  t.match(await signIn({ token }), { status: 401, headers: { 'set-cookie': undefined } });
});
