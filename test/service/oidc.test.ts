/** Tokens of a real OpenID Connect issuer: which are believed, and what happens when its keys or it itself go. */
import { createServer } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { decodeJwt, decodeProtectedHeader, importJWK, type JWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import t from 'tap';
import { z } from 'zod';
import { type KeyStore, openKeyFiles } from '../../db/files/key-files.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { discoverIssuer, IssuerUnavailableError, openIssuerKeys } from '../../service/identity/oidc.ts';
import { InvalidTokenError, openIssuer, openVerifier, type TokenVerifier } from '../../service/identity/tokens.ts';
import { listenOn } from '../fixtures/listening-server.ts';
import { moveClocks } from '../fixtures/moved-clocks.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { AUDIENCE, CLIENT, type Issuer, makeKey, OTHER_AUDIENCE, OTHER_CLIENT, startIssuer } from './issuer.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const [first, second, stranger] = await Promise.all([
  makeKey('RS256', 'first'),
  makeKey('ES256', 'second'),
  makeKey('RS256', 'first'),
]);

interface IssuerFixture {
  readonly issuer: Issuer;
  readonly verifier: TokenVerifier;
  /** Lets this much time pass for the verifier. */
  pass(ms: number): void;
  /** A token with the issuer's claims, these ones changed, signed by whatever key. */
  forge(claims?: JWTPayload, key?: JWK, header?: object): Promise<string>;
}
/** How the fixture's verifier is set up, beside issuer and audience. */
const SETTINGS = { OIDC_CLIENTS: [CLIENT] };

async function startIssuerFixture(test: Parameters<typeof temporaryFolder>[0], ...keys: JWK[]): Promise<IssuerFixture> {
  const issuer = await startIssuer(test, ...keys);
  let now = Date.now();
  const settings = {
    DATA_DIR: await temporaryFolder(test),
    OIDC_ISSUER: issuer.url,
    OIDC_AUDIENCE: AUDIENCE,
    ...SETTINGS,
  };
  return {
    issuer,
    verifier: await openVerifier(settings, () => now),
    pass: (ms) => {
      now += ms;
    },
    async forge(claims = {}, key = first, header = {}) {
      const exp = Math.floor(Date.now() / SECOND) + 60;
      return new SignJWT({ iss: issuer.url, aud: AUDIENCE, sub: 'ann', client_id: CLIENT, exp, ...claims })
        .setProtectedHeader({ typ: 'at+jwt', alg: key.alg ?? 'RS256', ...(key.kid ? { kid: key.kid } : {}), ...header })
        .sign(await importJWK(key), { crit: { x: true } });
    },
  };
}

t.test('a token that the issuer gave is believed', async (t) => {
  const { issuer, verifier } = await startIssuerFixture(t, first);
  const token = await issuer.token();
  t.equal(decodeProtectedHeader(token).kid, 'first', 'it is signed by the issuer’s key');
  const { subject, expiresAt, ...others } = await verifier.verify(token);
  t.equal(subject, 'ann');
  t.match(others, { issuer: issuer.url, tokenId: null });
  t.equal(expiresAt, ((decodeJwt(token).exp ?? 0) + 5) * SECOND, 'its exp and the tolerated clock difference');
  for (let count = 0; count < 50; count += 1) await verifier.verify(await issuer.token());
  t.equal(issuer.countKeyRequests(), 1, 'and its keys are asked for once');
});

t.test('a token for another audience or from another issuer is not', async (t) => {
  const { issuer, verifier, forge } = await startIssuerFixture(t, first);
  const now = Math.floor(Date.now() / SECOND);
  t.equal((await verifier.verify(await forge())).subject, 'ann', 'the pattern of those below');
  const refused: Record<string, string> = {
    'another audience, by the issuer itself': await issuer.token(OTHER_AUDIENCE),
    'another audience': await forge({ aud: OTHER_AUDIENCE }),
    'no audience': await forge({ aud: [] }),
    'another issuer': await forge({ iss: 'https://elsewhere.example' }),
    'the issuer with a slash more': await forge({ iss: `${issuer.url}/` }),
    'no issuer': await forge({ iss: undefined as never }),
    expired: await forge({ exp: now - 60 }),
    'no expiry': await forge({ exp: undefined as never }),
    'not valid yet': await forge({ nbf: now + 60 }),
    'no subject': await forge({ sub: undefined as never }),
    'a subject that is no name': await forge({ sub: 'a\nb' }),
    'another key of the same name': await forge({}, stranger),
    'an unknown key': await forge({}, { ...stranger, kid: 'unknown' }),
    'no signature': new UnsecuredJWT({ iss: issuer.url, aud: AUDIENCE, sub: 'ann', exp: now + 60 }).encode(),
    'the public key as a shared secret': await forge({}, { kty: 'oct', k: first.n ?? '', alg: 'HS256', kid: 'first' }),
    'a header that must be understood': await forge({}, first, { crit: ['x'], x: true }),
    'a key of its own': await forge(
      {},
      { ...stranger, kid: 'own' },
      { jwk: { kty: first.kty, n: first.n, e: first.e } },
    ),
    'half of one': (await forge()).slice(0, -20),
    nothing: '',
  };
  for (const [name, token] of Object.entries(refused)) {
    await t.rejects(verifier.verify(token), InvalidTokenError, name);
  }
  t.equal((await verifier.verify(await forge())).subject, 'ann', 'afterwards as before');
});

t.test('what the issuer signed for another purpose or client is no access token', async (t) => {
  const { issuer, verifier, forge } = await startIssuerFixture(t, first);
  const refused: Record<string, [token: string, message: RegExp]> = {
    'an ID token whose client id is our audience': [await issuer.tokenForClient('idtoken'), /type “JWT”.*at\+jwt/],
    'a logout token': [await issuer.tokenForClient('logout'), /type “logout\+jwt”/],
    'an access token of another client': [await issuer.token(AUDIENCE, OTHER_CLIENT), /“mallory”.*OIDC_CLIENTS/],
    'another azp': [await forge({ azp: OTHER_CLIENT }), /“mallory”/],
    'a client beside ours': [await forge({ azp: CLIENT, client_id: OTHER_CLIENT }), /“mallory”/],
    'no client': [await forge({ client_id: undefined }), /does not name the client/],
    'a token that is bound to a key': [await forge({ cnf: { jkt: 'x' } }), /DPoP/],
    'a refresh token': [await forge({ typ: 'Refresh' }, first, { typ: 'JWT' }), /type “JWT”/],
  };
  for (const [name, [token, message]] of Object.entries(refused)) {
    await t.rejects(verifier.verify(token), { name: 'InvalidTokenError', message }, name);
  }
  t.equal((await verifier.verify(await forge({}, first, { typ: 'application/AT+JWT' }))).subject, 'ann');
  const settings = { DATA_DIR: '', OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: AUDIENCE };
  const ours = await openVerifier({ ...settings, OIDC_CLIENT_ID: OTHER_CLIENT });
  t.equal((await ours.verify(await issuer.token(AUDIENCE, OTHER_CLIENT))).subject, OTHER_CLIENT, 'the console’s');
  const any = await openVerifier({ ...settings, OIDC_CLIENTS: ['*'] });
  t.equal((await any.verify(await issuer.token(AUDIENCE, OTHER_CLIENT))).subject, OTHER_CLIENT, 'any client');
  await t.rejects(any.verify(await issuer.tokenForClient('idtoken')), InvalidTokenError);
  const clientOf = async (azp: string, client_id: string) => (await any.verify(await forge({ azp, client_id }))).client;
  t.equal(await clientOf(CLIENT, CLIENT), CLIENT);
  for (const [azp, client_id] of [[CLIENT, OTHER_CLIENT] as const, [OTHER_CLIENT, CLIENT] as const])
    t.notOk([CLIENT, OTHER_CLIENT].includes(String(await clientOf(azp, client_id))), 'a token of several clients');
});

t.test('an issuer that does not mark its access tokens', async (t) => {
  const { issuer, forge } = await startIssuerFixture(t, first);
  const settings = { DATA_DIR: '', OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: AUDIENCE, ...SETTINGS };
  const { verify } = await openVerifier({ ...settings, OIDC_ACCESS_TOKENS: 'jwt', OIDC_CLIENT_ID: 'console' });
  const plain = (claims: JWTPayload, header = {}) => forge(claims, first, { typ: 'JWT', ...header });
  const accepted: Record<string, string> = {
    'a scope': await plain({ scope: 'openid profile' }),
    'a list of scopes': await plain({ scp: ['read'] }),
    'no type': await plain({ scope: '' }, { typ: undefined }),
    'a Bearer of Keycloak': await plain({ typ: 'Bearer', azp: 'console' }),
    'one of Cognito': await plain({ token_use: 'access' }),
    'a marked one': await issuer.token(),
  };
  for (const [name, token] of Object.entries(accepted)) t.equal((await verify(token)).subject, 'ann', name);
  const refused: Record<string, [token: string, message: RegExp]> = {
    'the issuer’s ID token': [await issuer.tokenForClient('idtoken'), /does not say/],
    'the issuer’s logout token': [await issuer.tokenForClient('logout'), /logout\+jwt/],
    'an ID token with a nonce': [await plain({ scope: 'openid', nonce: 'x' }), /“nonce”/],
    'an ID token with a hash': [await plain({ scope: 'openid', at_hash: 'x' }), /“at_hash”/],
    'a logout token without a type': [await plain({ scope: 'x', events: {} }, { typ: undefined }), /“events”/],
    'an ID token of Keycloak': [await plain({ typ: 'ID', scope: 'openid' }), /“ID”/],
    'a refresh token of Keycloak': [await plain({ typ: 'Refresh', scope: 'openid' }), /“Refresh”/],
    'an offline token': [await plain({ typ: 'Offline', scope: 'offline_access' }), /“Offline”/],
    'an ID token of Cognito': [await plain({ token_use: 'id', scope: 'openid' }), /“id”/],
    'no mark of an access token': [await plain({}), /no scope/],
    'another client': [await plain({ scope: 'x', azp: OTHER_CLIENT }), /“mallory”/],
  };
  for (const [name, [token, message]] of Object.entries(refused)) await t.rejects(verify(token), { message }, name);
});

t.test('several audiences are fine when ours is among them', async (t) => {
  const { verifier, forge } = await startIssuerFixture(t, first);
  t.equal((await verifier.verify(await forge({ aud: ['x', AUDIENCE] }))).subject, 'ann');
});

t.test('a new key counts at once, a retired one until the next look', async (t) => {
  const { issuer, verifier, pass, forge } = await startIssuerFixture(t, first);
  const old = await issuer.token();
  await verifier.verify(old);
  issuer.useKeys(second, first);
  pass(2 * SECOND);
  const fresh = await issuer.token();
  t.equal(decodeProtectedHeader(fresh).kid, 'second');
  t.equal((await verifier.verify(fresh)).subject, 'ann', 'the first token of a new key');
  t.equal((await verifier.verify(old)).subject, 'ann', 'both keys are published');
  issuer.useKeys(second);
  t.equal((await verifier.verify(old)).subject, 'ann', 'the keys are cached');
  pass(11 * MINUTE);
  await t.rejects(verifier.verify(old), InvalidTokenError, 'retired');
  t.equal((await verifier.verify(fresh)).subject, 'ann');
  await t.rejects(verifier.verify(await forge()), InvalidTokenError);
  t.equal((await verifier.verify(await issuer.token())).subject, 'ann');
});

t.test('after a step back of the wall clock, keys are fetched again in time', async (t) => {
  const issuer = await startIssuer(t, first);
  const clocks = moveClocks(t);
  const DATA_DIR = await temporaryFolder(t);
  const settings = { DATA_DIR, OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: AUDIENCE, ...SETTINGS };
  const { verify } = await openVerifier(settings);
  const old = await issuer.token();
  await verify(old);
  issuer.useKeys(second);
  // Before the step: it expires within a minute.
  const fresh = await issuer.token();
  clocks.wallMs = -HOUR;
  clocks.monotonicMs += 2 * SECOND;
  t.equal((await verify(fresh)).subject, 'ann', 'the first token of a new key');
  issuer.useKeys(first);
  clocks.monotonicMs += 11 * MINUTE;
  await t.rejects(verify(fresh), InvalidTokenError, 'retired');
});

t.test('tokens with made-up keys do not become a flood of questions to the issuer', async (t) => {
  const { issuer, verifier, forge } = await startIssuerFixture(t, first);
  await verifier.verify(await issuer.token());
  const made = await Promise.all(
    Array.from({ length: 100 }, (_, index) => forge({}, { ...stranger, kid: `made up ${index}` })),
  );
  await Promise.all(made.map((token) => t.rejects(verifier.verify(token), InvalidTokenError)));
  t.ok(issuer.countKeyRequests() <= 2, `${issuer.countKeyRequests()} questions`);
});

t.test('while the issuer is unavailable, known keys are accepted and unknown ones answer 503', async (t) => {
  const { issuer, verifier, pass, forge } = await startIssuerFixture(t, first);
  issuer.goAway();
  await t.rejects(verifier.verify(await forge()), IssuerUnavailableError, 'before it was ever reached');
  issuer.comeBack();
  pass(SECOND);
  const token = await forge();
  t.equal((await verifier.verify(token)).subject, 'ann', 'a second after it is there');
  issuer.goAway();
  pass(2 * SECOND);
  const unknown = await forge({}, { ...stranger, kid: 'unknown' });
  await t.rejects(verifier.verify(unknown), IssuerUnavailableError, 'the key cannot be looked up');
  await t.rejects(verifier.verify(unknown), IssuerUnavailableError, 'nor a moment later');
  t.equal((await verifier.verify(token)).subject, 'ann', 'known keys work');
  await t.rejects(verifier.verify(await forge({}, stranger)), InvalidTokenError, 'forgeries do not');
  pass(HOUR);
  t.equal((await verifier.verify(token)).subject, 'ann', 'also when they are old');
  pass(24 * HOUR);
  await t.rejects(verifier.verify(token), IssuerUnavailableError, 'but not for ever');
  issuer.comeBack();
  pass(2 * SECOND);
  await t.rejects(verifier.verify(unknown), InvalidTokenError, 'then it is judged');
  t.equal((await verifier.verify(token)).subject, 'ann');
});

t.test('an issuer that never answered is asked once a second, however many tokens come', async (t) => {
  let asked = 0;
  const server = createServer((_request, response) => {
    asked += 1;
    response.writeHead(500).end();
  });
  const { url } = await listenOn(t, server);
  let now = 0;
  const readKeys = openIssuerKeys(url, () => now);
  for (let count = 0; count < 3; count += 1) await t.rejects(readKeys(), IssuerUnavailableError);
  t.equal(asked, 1);
  now = SECOND;
  await t.rejects(readKeys(), IssuerUnavailableError);
  t.equal(asked, 2);
});

t.test('no more than 1 MiB of an answer of the issuer is read', async (t) => {
  const endless = Readable.from(
    (function* () {
      for (;;) yield Buffer.alloc(MIB, ' ');
    })(),
  );
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  endless.once('close', resolve);
  const server = createServer((_request, response) => {
    response.setHeader('content-encoding', 'gzip');
    pipeline(endless, createGzip(), response, () => undefined);
  });
  const { url } = await listenOn(t, server);
  const readKeys = openIssuerKeys(url);
  const message = `${url}: ${url}/.well-known/openid-configuration answered with more than ${MIB} bytes`;
  await t.rejects(readKeys(), { name: 'IssuerUnavailableError', message });
  await ended;
});

t.test('an answer of the issuer in many pieces, with characters beyond ASCII, is read', async (t) => {
  const issuer = await startIssuer(t, first);
  const known = await (await fetch(`${issuer.url}/.well-known/openid-configuration`)).json();
  const server = createServer(async (_request, response) => {
    const document = { ...(known as object), issuer: url, service_documentation: `${url}/Grüße-😀` };
    for (const byte of Buffer.from(JSON.stringify(document))) {
      response.write(Buffer.of(byte));
      await new Promise((then) => setImmediate(then));
    }
    response.end();
  });
  const { url } = await listenOn(t, server);
  const facts = z.object({ service_documentation: z.string() });
  t.match(await discoverIssuer(url, facts), { service_documentation: `${url}/Grüße-😀` });
});

t.test('a token that a service got is verified as soon as its keys can be read', async (t) => {
  const dataDir = await temporaryFolder(t);
  const act = { sub: 'bot', iss: 'https://issuer.example' };
  const token = await (await openIssuer(dataDir)).issue('ann', 60, 'token-1', { act });
  const files = openKeyFiles(dataDir);
  let isAway = true;
  const list: KeyStore['list'] = async (purpose) => {
    if (isAway) throw new Error('the database is away');
    return files.list(purpose);
  };
  const settings = { DATA_DIR: dataDir, OIDC_ISSUER: 'https://issuer.example', OIDC_AUDIENCE: AUDIENCE };
  const verifier = await openVerifier(settings, undefined, { ...files, list });
  await t.rejects(verifier.verify(token), { message: 'the database is away' });
  isAway = false;
  t.match(await verifier.verify(token), { subject: 'ann', tokenId: 'token-1' });
});
