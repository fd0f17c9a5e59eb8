import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { decodeJwt, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import t from 'tap';
import { SECOND } from '../../sdk/contract/limits.ts';
import { InvalidTokenError, IssuerUnavailableError, openIssuer, openVerifier } from '../../service/identity/tokens.ts';
import { moveClocks } from '../fixtures/moved-clocks.ts';
import { temporaryFolder } from '../runner/harness.ts';

const none = { OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined };

t.test('a token names its user until it expires', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  const issuer = await openIssuer(DATA_DIR);
  const verifier = await openVerifier({ DATA_DIR, ...none });
  const token = await issuer.issue('ann');
  const { subject, expiresAt } = await verifier.verify(token);
  t.equal(subject, 'ann');
  t.equal(expiresAt, ((decodeJwt(token).exp ?? 0) + 5) * 1000, 'its exp and the tolerated clock difference');
  await t.rejects(verifier.verify(await issuer.issue('ann', -60)), InvalidTokenError);
  await t.rejects(issuer.issue('a\u0000b'));
  await t.rejects(issuer.issue(''));
});

t.test('processes that start at once agree on one key, private on disk', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  const issuers = await Promise.all(Array.from({ length: 20 }, () => openIssuer(DATA_DIR)));
  const verifier = await openVerifier({ DATA_DIR, ...none });
  for (const issuer of issuers) t.equal((await verifier.verify(await issuer.issue('ann'))).subject, 'ann');
  t.same(await readdir(join(DATA_DIR, 'keys')), ['identity.jwk.json']);
  t.equal((await stat(join(DATA_DIR, 'keys', 'identity.jwk.json'))).mode & 0o077, 0);
});

t.test('a forged token is refused whatever it is forged with', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  const genuine = await (await openIssuer(DATA_DIR)).issue('ann');
  const verifier = await openVerifier({ DATA_DIR, ...none });
  const stranger = await (await openIssuer(await temporaryFolder(t))).issue('ann');
  const [header = '', payload = '', signature = ''] = genuine.split('.');
  const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const other = JSON.parse(Buffer.from(payload, 'base64url').toString());
  const publicKey = JSON.parse(await readFile(join(DATA_DIR, 'keys', 'identity.jwk.json'), 'utf8')).x;
  const symmetric = await new SignJWT(other)
    .setProtectedHeader({ alg: 'HS256' })
    .sign(Buffer.from(String(publicKey).padEnd(32, 'x')));
  const forged = [
    stranger,
    `${header}.${encode({ ...other, sub: 'bob' })}.${signature}`,
    `${encode({ alg: 'none' })}.${payload}.`,
    `${encode({ alg: 'none' })}.${payload}.${signature}`,
    symmetric,
    `${header}.${payload}`,
    '',
    '...',
    'x'.repeat(20_000),
    `${genuine}\u0000`,
  ];
  for (const token of forged) await t.rejects(verifier.verify(token), InvalidTokenError, token.slice(0, 60));
});

t.test('a damaged key is an error, never silently replaced', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  await mkdir(join(DATA_DIR, 'keys'));
  await writeFile(join(DATA_DIR, 'keys', 'identity.jwk.json'), '{}');
  await t.rejects(openVerifier({ DATA_DIR, ...none }));
  t.equal(await readFile(join(DATA_DIR, 'keys', 'identity.jwk.json'), 'utf8'), '{}');
});

t.test('tokens of an OpenID Connect issuer are verified against its keys', async (t) => {
  const { publicKey, privateKey } = await generateKeyPair('RS256');
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256' };
  let up = false;
  const server = createServer((request, response) => {
    if (!up) return response.writeHead(500).end();
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const found = request.url === '/jwks' ? { keys: [jwk] } : { issuer: `${origin}/`, jwks_uri: `${origin}/jwks` };
    return response.end(JSON.stringify(found));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  t.teardown(() => server.closeAllConnections());
  const OIDC_ISSUER = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const DATA_DIR = await temporaryFolder(t);
  const clocks = moveClocks(t);
  const verifier = await openVerifier({ DATA_DIR, OIDC_ISSUER, OIDC_AUDIENCE: 'us', OIDC_CLIENTS: ['*'] });
  const sign = (claims: JWTPayload): Promise<string> =>
    new SignJWT({ iss: `${OIDC_ISSUER}/`, aud: 'us', sub: 'ann', azp: 'x', exp: inOneMinute(), ...claims })
      .setProtectedHeader({ alg: 'RS256', kid: 'one', typ: 'at+jwt' })
      .sign(privateKey);
  const inOneMinute = () => Math.floor(Date.now() / 1000) + 60;
  await t.rejects(verifier.verify(await sign({})), IssuerUnavailableError, 'while the issuer is away');
  up = true;
  clocks.monotonicMs += SECOND;
  t.match(await verifier.verify(await sign({})), { subject: 'ann', issuer: OIDC_ISSUER }, 'without the slash');
  await t.rejects(verifier.verify(await sign({ aud: 'others' })), InvalidTokenError);
  await t.rejects(verifier.verify(await sign({ iss: 'https://else.example' })), InvalidTokenError);
  await t.rejects(verifier.verify(await sign({ exp: 1 })), InvalidTokenError);
  // The last two: no path of a URL can name them, so no operator could suspend their accounts.
  for (const sub of ['a\nb', '.', '..']) await t.rejects(verifier.verify(await sign({ sub })), InvalidTokenError, sub);
  t.match(await verifier.verify(await sign({ sub: '...' })), { subject: '...' });
  const ours = await (await openIssuer(DATA_DIR)).issue('ann');
  await t.rejects(verifier.verify(ours), InvalidTokenError, 'our own tokens do not count then');
});
