import { createHash } from 'node:crypto';
import t from 'tap';
import { BUILT_IN_ISSUER, findOrCreateAccount, moveAccounts, setOperator } from '../../db/accounts/accounts.ts';
import { createSession, findSession } from '../../db/accounts/console-sessions.ts';
import { addDelegation } from '../../db/accounts/delegations.ts';
import { recordToken } from '../../db/accounts/issued-tokens.ts';
import { openListener } from '../../db/postgres/listener.ts';
import {
  issueSignInLink,
  openConsoleSessions,
  sessionCredential,
  withConsoleSessions,
} from '../../service/identity/console-sessions.ts';
import { issueRecordedToken } from '../../service/identity/recorded-tokens.ts';
import { SignIn } from '../../service/identity/sign-in.ts';
import { InvalidTokenError, openIssuer, openVerifier, type TokenVerifier } from '../../service/identity/tokens.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { AUDIENCE, CLIENT, makeKey, OTHER_CLIENT, startIssuer } from './issuer.ts';

/** Longer than any token of the test lives. Milliseconds. */
const SESSION_MS = 7 * 24 * 3_600_000;
const { pool } = await testDatabase(t);

t.test('an account is made once, also when it is first seen many times at once', async (t) => {
  const accounts = await Promise.all(Array.from({ length: 20 }, () => findOrCreateAccount(pool, 'ann')));
  t.equal(new Set(accounts.map(({ id }) => id)).size, 1);
  t.match(accounts[0], { name: 'ann', operator: false, verifiedAt: null, createdAt: /^\d{4}-\d\d-\d\dT/ });
  t.not((await findOrCreateAccount(pool, 'Ann')).id, accounts[0]?.id, 'names are exact');
  await setOperator(pool, accounts[0]?.id ?? '', true);
  t.equal((await findOrCreateAccount(pool, 'ann')).operator, true);
});

t.test('accounts of two issuers are two, and their names differ', async (t) => {
  const issuer = 'https://issuer.example/tenant';
  const [built, other] = [await findOrCreateAccount(pool, 'local'), await findOrCreateAccount(pool, 'local', issuer)];
  t.not(other.id, built.id);
  t.equal(other.name, 'local@issuer.example');
  t.equal((await findOrCreateAccount(pool, 'local', issuer)).id, other.id);
  t.equal((await findOrCreateAccount(pool, 'local@issuer.example')).name, 'local@issuer.example@bulkhead');
  const first = await findOrCreateAccount(pool, 'eve', issuer);
  t.equal(first.name, 'eve', 'nobody had the name');
  const raced = await Promise.all(Array.from({ length: 20 }, () => findOrCreateAccount(pool, 'eve')));
  t.same([...new Set(raced.map(({ name }) => name))], ['eve@bulkhead']);
});

t.test('a token of an issuer is not the account of the same name from before', async (t) => {
  const issuer = await startIssuer(t, await makeKey('RS256', 'one'));
  const local = await findOrCreateAccount(pool, CLIENT);
  await setOperator(pool, local.id, true);
  const settings = { DATA_DIR: '', OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: AUDIENCE, OIDC_CLIENTS: [CLIENT] };
  const account = await new SignIn(pool, await openVerifier(settings)).signIn(await issuer.token());
  t.match(account, { operator: false, issuer: issuer.url, name: `${CLIENT}@${new URL(issuer.url).host}` });
  t.not(account.id, local.id);
});

t.test('a session of the console outlives a token for the console’s client only', async (t) => {
  const issuer = await startIssuer(t, await makeKey('RS256', 'one'));
  const settings = { DATA_DIR: await temporaryFolder(t), OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: AUDIENCE };
  const tokens = await openVerifier({ ...settings, OIDC_CLIENT_ID: CLIENT, OIDC_CLIENTS: [OTHER_CLIENT] });
  const signIn = new SignIn(pool, withConsoleSessions(pool, tokens));
  const parts = { pool, tokens, signIn, lifetimeMs: SESSION_MS };
  const sessions = openConsoleSessions({ ...parts, consoleClient: CLIENT });
  const start = async (token: string) => {
    const [{ expiresAt }, session] = [await tokens.verify(token), await sessions.start(token)];
    return { token: expiresAt, session: session.expiresAt.getTime() };
  };
  const own = await start(await issuer.token(AUDIENCE, CLIENT));
  t.ok(own.session > own.token, 'the console’s client');
  const other = await start(await issuer.token(AUDIENCE, OTHER_CLIENT));
  t.equal(other.session, other.token, 'the client of a runtime');
});

t.test('a session of the console is refused when its issuer is not the configured one', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  const open = async (OIDC_ISSUER: string | undefined) => {
    const OIDC_AUDIENCE = OIDC_ISSUER === undefined ? undefined : AUDIENCE;
    const tokens = await openVerifier({ DATA_DIR, OIDC_ISSUER, OIDC_AUDIENCE });
    const signIn = new SignIn(pool, withConsoleSessions(pool, tokens));
    const parts = { pool, tokens, signIn, consoleClient: null, lifetimeMs: SESSION_MS };
    return { signIn, sessions: openConsoleSessions(parts) };
  };
  const [builtIn, first, second] = [
    await open(undefined),
    await open('https://one.example'),
    await open('https://two.example'),
  ];
  const issuer = await openIssuer(DATA_DIR);
  const account = await findOrCreateAccount(pool, 'mia');
  const start = async (token: string) => sessionCredential((await builtIn.sessions.start(token)).secret);
  const redeem = async () => {
    const code = (await issueSignInLink(pool, account.id, '')).split('=')[1] ?? '';
    return sessionCredential((await builtIn.sessions.redeem(code)).secret);
  };
  const link = await redeem();
  const recorded = await start(await issueRecordedToken(pool, issuer, { subject: 'mia', name: 'laptop' }));
  const service = { name: 'desk', issuer: 'https://desk.example', subject: 'desk', scopes: ['sessions:read'] };
  const delegation = await addDelegation(pool, { ...account, tokenId: null }, service, 1);
  const record = { accountId: account.id, name: 'desk', expiresAt: new Date(Date.now() + SESSION_MS) };
  const id = await recordToken(pool, { ...record, delegationId: String(delegation?.id) });
  const exchanged = await start(await issuer.issue('mia', 600, id, { act: { sub: 'desk' } }));
  for (const session of [link, recorded]) {
    t.equal((await builtIn.signIn.signIn(session)).id, account.id);
    await t.rejects(first.signIn.signIn(session), new InvalidTokenError('the session is of another issuer'));
  }
  t.equal((await first.signIn.signIn(exchanged)).id, account.id, 'exchanged tokens are accepted with every issuer');
  const before = await redeem();
  await moveAccounts(pool, { from: BUILT_IN_ISSUER, to: 'https://one.example' }, ['mia']);
  await t.rejects(first.signIn.signIn(before), new InvalidTokenError('the session has ended'));
  const hash = createHash('sha256').update('secret').digest('hex');
  const session = { id: hash, accountId: account.id, tokenId: null, keyId: null, expiresAt: record.expiresAt };
  await createSession(pool, session);
  const atFirst = sessionCredential('secret');
  t.equal((await first.signIn.signIn(atFirst)).id, account.id);
  await t.rejects(second.signIn.signIn(atFirst), new InvalidTokenError('the session is of another issuer'));
});

t.test('accounts that change places are those of their new tokens at once', async (t) => {
  const issuer = 'https://moving.example';
  const identity = {
    issuer,
    subject: 'zoe',
    tokenId: null,
    keyId: null,
    client: null,
    issuedAt: null,
    expiresAt: Date.now() + 1e9,
  };
  const signing = new SignIn(pool, { verify: async () => identity });
  const listener = await openListener(pool, (error) => t.error(error));
  const following = await signing.follow(listener);
  t.teardown(async () => {
    await following.close();
    await listener.close();
  });
  const { id: before } = await findOrCreateAccount(pool, 'zoe');
  const displaced = (await signing.signIn('theirs')).id;
  t.not(displaced, before);
  const expiresAt = new Date(identity.expiresAt);
  await createSession(pool, { id: 'displaced', accountId: displaced, tokenId: null, keyId: null, expiresAt });
  await moveAccounts(pool, { from: BUILT_IN_ISSUER, to: issuer }, ['zoe']);
  await listener.catchUp();
  t.equal((await signing.signIn('theirs')).id, before);
  t.equal(
    await findSession(pool, 'displaced'),
    null,
    'it began at an issuer whose tokens sign in to another account now',
  );
});

t.test('a token with a record creates no account after its account was moved', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  const issuer = await openIssuer(DATA_DIR);
  const token = await issueRecordedToken(pool, issuer, { subject: 'mel', name: 'laptop' });
  await moveAccounts(pool, { from: BUILT_IN_ISSUER, to: 'https://moving.example' }, ['mel']);
  const signIn = new SignIn(pool, await openVerifier({ DATA_DIR, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined }));
  await t.rejects(signIn.signIn(token), InvalidTokenError);
  const { rows } = await pool.query(`SELECT name FROM accounts WHERE name LIKE 'mel%'`);
  t.same(rows, [{ name: 'mel' }]);
});

t.test('a verified token is cached until its expiry at most; a rejected one is verified again', async (t) => {
  let time = 1_000_000;
  const requests: string[] = [];
  const verifier: TokenVerifier = {
    async verify(token) {
      requests.push(token);
      if (token === 'bad') throw new InvalidTokenError('no');
      const expiresAt = token === 'short' ? time + 5_000 : time + 1e9;
      return {
        issuer: 'bulkhead',
        subject: token,
        tokenId: null,
        keyId: null,
        client: null,
        issuedAt: null,
        expiresAt,
      };
    },
  };
  const signing = new SignIn(pool, verifier, () => time);
  const signIn = (token: string) => signing.signIn(token);
  const [one, two] = await Promise.all([signIn('long'), signIn('long')]);
  t.equal(one.id, two.id);
  await signIn('short');
  time += 10_000;
  await signIn('long');
  await signIn('short');
  time += 25_000;
  await signIn('long');
  t.same(requests, ['long', 'short', 'short', 'long']);
  time -= 3_600_000;
  await signIn('long');
  t.equal(requests.length, 5, 'after the clock went back, its age is not known');
  await t.rejects(signIn('bad'), InvalidTokenError);
  await t.rejects(signIn('bad'), InvalidTokenError);
  t.equal(requests.filter((token) => token === 'bad').length, 2);
});

t.test('a token that was valid stays known while it cannot be verified, until the service refuses it', async (t) => {
  let time = 1_000_000;
  let fault: Error | null = null;
  const signing = new SignIn(
    pool,
    {
      async verify(subject) {
        if (fault) throw fault;
        return {
          issuer: 'bulkhead',
          subject,
          tokenId: null,
          keyId: null,
          client: null,
          issuedAt: null,
          expiresAt: time + 1e9,
        };
      },
    },
    () => time,
  );
  await signing.signIn('seen');
  time += 60_000;
  fault = new Error('Connection terminated unexpectedly');
  await t.rejects(signing.signIn('seen'), fault);
  await t.rejects(signing.signIn('new'), fault);
  t.equal(signing.knows('seen'), true);
  t.equal(signing.knows('new'), false);
  fault = new InvalidTokenError('the token was revoked');
  await t.rejects(signing.signIn('seen'), fault);
  t.equal(signing.knows('seen'), false);
});
