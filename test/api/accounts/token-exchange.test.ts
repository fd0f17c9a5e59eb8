/** Services that act for accounts: what they may exchange for what, and what the tokens that they get may do. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { decodeJwt, importJWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { addDelegation, findDelegation, recordExchange } from '../../../db/accounts/delegations.ts';
import { KIB } from '../../../sdk/contract/limits.ts';
import type { OpenApiDocument } from '../../../service/http/openapi.ts';
import { openIssuer } from '../../../service/identity/tokens.ts';
import { makeKey, startIssuer } from '../../service/issuer.ts';
import { startSupervisorFixture } from '../../supervisor/supervisor-fixture.ts';
import { listen, PUBLIC_URL, startApiFixture } from '../api-fixture.ts';

const SECOND = 1_000;
const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const TYPE = 'urn:ietf:params:oauth:token-type:';
const [key, stranger] = await Promise.all([makeKey('RS256', 'one'), makeKey('RS256', 'one')]);

t.test('a service acts for an account that allowed it', async (t) => {
  const issuer = await startIssuer(t, key);
  const other = await startIssuer(t, stranger);
  const supervisor = await startSupervisorFixture(t);
  const api = await startApiFixture(t, { beside: supervisor, exchangeIssuers: [issuer.url] });
  const ann = await api.signIn('ann', 'laptop');
  const { id: accountId } = (await ann.get('/me')).body;
  const delegation = { name: 'Helpdesk', issuer: `${issuer.url}/`, subject: 'helpdesk', scopes: ['sessions:write'] };
  let tokens = 0;
  /** A token of the service as its issuer signs it, with these claims changed. */
  async function forge(claims: Readonly<Record<string, unknown>> = {}, by = key, header = {}): Promise<string> {
    tokens += 1;
    const now = Math.floor(Date.now() / SECOND);
    const own = { iss: issuer.url, aud: PUBLIC_URL, sub: 'helpdesk', iat: now, exp: now + 600, jti: `t${tokens}` };
    return new SignJWT({ ...own, ...claims } as JWTPayload)
      .setProtectedHeader({ alg: 'RS256', kid: 'one', ...header })
      .sign(await importJWK(by));
  }
  async function exchange(changes: Readonly<Record<string, string | undefined>> = {}, given?: string | string[][]) {
    const form = {
      grant_type: GRANT_TYPE,
      subject_token: await forge(),
      subject_token_type: `${TYPE}jwt`,
      audience: accountId,
      ...changes,
    };
    const sent = Object.entries(form).filter((pair): pair is [string, string] => pair[1] !== undefined);
    const response = await api.app.inject({
      method: 'POST',
      url: '/oauth/token',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      payload: new URLSearchParams(given ?? sent).toString(),
    });
    return { status: response.statusCode, body: response.json(), headers: response.headers };
  }
  const call = (token: string, method: 'GET' | 'POST' | 'DELETE', url: string, payload?: object) =>
    supervisor.app.inject({
      method,
      url,
      headers: { authorization: `Bearer ${token}` },
      ...(payload ? { payload } : {}),
    });

  await t.test('not before it did', async (t) => {
    t.match(await exchange(), {
      status: 400,
      body: { error: 'invalid_target', error_description: /allowed this service/ },
    });
  });

  const allowed = await ann.post('/me/delegations', delegation);
  t.match(allowed, {
    status: 201,
    body: { issuer: issuer.url, isIssuerConfigured: true, subject: 'helpdesk', lastUsedAt: null },
  });
  t.match(await ann.post('/me/delegations', delegation), { status: 409, body: { code: 'id_reused' } });

  await t.test('with a token that says for whom, by whom, for what and how long', async (t) => {
    const subject = await forge();
    const exchanged = await exchange({ subject_token: subject, scope: 'sessions:read' });
    t.match(exchanged, {
      status: 200,
      headers: { 'cache-control': 'no-store' },
      body: { issued_token_type: `${TYPE}access_token`, token_type: 'Bearer', scope: 'sessions:read' },
    });
    t.ok(exchanged.body.expires_in > 500 && exchanged.body.expires_in <= 600, 'it ends with the token of the service');
    const token = exchanged.body.access_token;
    t.match(decodeJwt(token), { sub: 'ann', act: { sub: 'helpdesk', iss: issuer.url }, scope: 'sessions:read' });
    t.equal((await call(token, 'GET', '/sessions')).statusCode, 200);
    const refused = await call(token, 'POST', '/sessions', { agentId: 'a' });
    t.match(refused.json(), { status: 403, code: 'insufficient_scope', detail: /needs the scope sessions:write/ });
    t.match(await exchange({ subject_token: subject }), {
      status: 400,
      body: { error: 'invalid_request', error_description: /was exchanged for this account before/ },
    });
    const [head = '', body = '', signature = ''] = subject.split('.');
    const respelled = [head, body, `${signature}=`].join('.');
    t.equal((await exchange({ subject_token: respelled })).status, 400, 'nor in another spelling');
    t.match((await ann.get('/me/actions')).body.items[0], {
      action: 'token.exchange',
      subject: 'Helpdesk',
      detail: 'sessions:read',
      actor: `helpdesk of ${issuer.url}`,
    });
    t.match((await ann.get('/me/tokens')).body.items, [{ name: 'laptop' }], 'which is no token of ann’s own');
  });

  await t.test('and never with more than it was allowed', async (t) => {
    for (const scope of ['account:read', 'sessions:write account:read', 'everything', 'sessions:write everything'])
      t.match(await exchange({ scope }), { status: 400, body: { error: 'invalid_scope' } });
    const { access_token: token, scope } = (await exchange()).body;
    t.equal(scope, 'sessions:write', 'what is allowed, if it asks for nothing');
    t.equal((await call(token, 'POST', '/sessions', { agentId: 'a' })).statusCode, 201);
    t.equal((await call(token, 'GET', '/ssh-hosts')).statusCode, 200);
    for (const [method, url] of [
      ['POST', '/ssh-hosts'],
      ['DELETE', '/ssh-hosts/web'],
      ['POST', '/ssh-hosts/web/test'],
      ['POST', '/installations/x/inspector'],
    ] as const)
      t.match((await call(token, method, url, {})).json(), { code: 'insufficient_scope' }, `${method} ${url}`);
    for (const [method, url] of [
      ['GET', '/me'],
      ['GET', '/me/tokens'],
      ['POST', '/me/delegations'],
      ['POST', '/plugins'],
    ] as const) {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await api.app.inject({
        method,
        url: `/api${url}`,
        headers,
        ...(method === 'POST' ? { payload: {} } : {}),
      });
      t.match(answer.json(), { code: 'insufficient_scope' }, `${method} ${url}`);
    }
    t.match(await exchange({ subject_token: token }), { status: 400 }, 'and is no token of a service');
  });

  await t.test('on every address of both interfaces', async (t) => {
    const { access_token: token } = (await exchange({ scope: 'sessions:read' })).body;
    const headers = { authorization: `Bearer ${token}` };
    const applications = [
      { app: supervisor.app, prefix: '' },
      { app: api.app, prefix: '/api' },
    ];
    for (const { app, prefix } of applications) {
      const { paths } = (await app.inject(`${prefix}/openapi.json`)).json<OpenApiDocument>();
      for (const [path, methods] of Object.entries(paths))
        for (const [name, { security }] of Object.entries(methods)) {
          const method = name.toUpperCase() as 'GET';
          // Reads of the session API are what the token is for; those without a sign-in are for everybody.
          const isAllowed = security !== undefined || (prefix === '' && method === 'GET' && !path.endsWith('/prompt'));
          if (isAllowed) continue;
          const url = prefix + path.replaceAll(/\{\w+\}/g, 'x');
          const { statusCode, body } = await app.inject({ method, url, headers });
          t.match({ statusCode, body }, { statusCode: 403, body: /insufficient_scope/ }, `${method} ${url}`);
        }
    }
  });

  await t.test('no session of the console outlives the token, whoever signs the account in', async (t) => {
    const eve = await findOrCreateAccount(api.pool, 'eve', 'https://idp.example');
    const reading = { ...delegation, issuer: issuer.url, scopes: ['account:read'] };
    await addDelegation(api.pool, { ...eve, tokenId: null, tokensAfter: null }, reading, 10);
    const { access_token: token } = (await exchange({ audience: eve.id })).body;
    const answer = await api.app.inject({
      method: 'POST',
      url: '/api/sign-in',
      headers: { host: new URL(PUBLIC_URL).host, origin: PUBLIC_URL, 'x-bulkhead-console': '1' },
      payload: { token },
    });
    t.match(answer.json(), { name: /^eve/ });
    const [, seconds] = /Max-Age=(\d+)/.exec(String(answer.headers['set-cookie'])) ?? [];
    t.ok(Number(seconds) <= 600, `it ends in ${seconds} s`);
  });

  await t.test('tokens that are forged, of others, for others or too old are refused alike', async (t) => {
    const now = Math.floor(Date.now() / SECOND);
    const none = new UnsecuredJWT({ iss: issuer.url, aud: PUBLIC_URL, sub: 'helpdesk', exp: now + 60 }).encode();
    const publicKey = new TextEncoder().encode(JSON.stringify(key.n));
    const symmetric = await new SignJWT({ iss: issuer.url, aud: PUBLIC_URL, sub: 'helpdesk', exp: now + 60 })
      .setProtectedHeader({ alg: 'HS256', kid: 'one' })
      .sign(publicKey);
    const [head, , signature] = (await forge()).split('.');
    const swapped = [
      head,
      Buffer.from(JSON.stringify({ iss: issuer.url, sub: 'x' })).toString('base64url'),
      signature,
    ].join('.');
    const bad = {
      'wrong audience': await forge({ aud: 'https://another.example' }),
      'no audience': await forge({ aud: undefined }),
      expired: await forge({ exp: now - 60 }),
      'no expiry': await forge({ exp: undefined }),
      'not yet valid': await forge({ nbf: now + 600 }),
      'alg none': none,
      symmetric,
      'another key': await forge({}, stranger),
      'other claims': swapped,
      'bound to a key': await forge({ cnf: { jkt: 'x' } }),
      'logout token': await forge({ events: {} }),
      'no subject': await forge({ sub: undefined }),
      'hidden characters': await forge({ sub: 'help\u202Edesk' }),
      'no token': 'x.y.z',
      long: 'a'.repeat(20_000),
    };
    for (const [name, token] of Object.entries(bad)) {
      const refused = await exchange({ subject_token: token });
      t.match(refused, { status: 400, body: { error: 'invalid_request' } }, name);
      t.notOk('access_token' in refused.body, name);
    }
    const foreign = await forge({ iss: other.url }, stranger);
    t.match((await exchange({ subject_token: foreign })).body.error_description, /not configured the issuer/);
    const unknown = await exchange({ subject_token: await forge({ sub: 'another-service' }) });
    t.match(unknown.body.error, 'invalid_target');
    const users = await (await openIssuer(api.dataDir)).issue('ann');
    t.match((await exchange({ subject_token: users })).body.error, 'invalid_request', 'a token of a user');
    const { id: bob } = await findOrCreateAccount(api.pool, 'bob');
    const elsewhere = [bob, 'nobody', accountId.toUpperCase(), `${accountId}\0`];
    for (const audience of elsewhere) t.match((await exchange({ audience })).body.error, 'invalid_target');
  });

  await t.test('requests that are none of RFC 8693 are refused in its shape', async (t) => {
    const refusals: [Readonly<Record<string, string | undefined>>, string][] = [
      [{ grant_type: undefined }, 'invalid_request'],
      [{ grant_type: 'client_credentials' }, 'unsupported_grant_type'],
      [{ subject_token: undefined }, 'invalid_request'],
      [{ subject_token: '' }, 'invalid_request'],
      [{ subject_token_type: undefined }, 'invalid_request'],
      [{ subject_token_type: `${TYPE}saml2` }, 'invalid_request'],
      [{ audience: undefined }, 'invalid_request'],
      [{ requested_token_type: `${TYPE}refresh_token` }, 'invalid_request'],
      [{ actor_token: 'x', actor_token_type: `${TYPE}jwt` }, 'invalid_request'],
      [{ 'x"\n': 'y' }, 'invalid_request'],
    ];
    for (const [changes, error] of refusals) {
      const { status, body, headers } = await exchange(changes);
      t.match({ status, error: body.error }, { status: 400, error }, JSON.stringify(changes));
      t.match(body.error_description, /^[\x20-\x21\x23-\x5B\x5D-\x7E]+$/, 'in the characters that the RFC allows');
      t.equal(headers['cache-control'], 'no-store');
    }
    t.match((await exchange({}, 'grant_type=a&grant_type=b')).body, { error: 'invalid_request' });
    const json = await api.app.inject({ method: 'POST', url: '/oauth/token', payload: { grant_type: GRANT_TYPE } });
    t.match(json.json(), { error: 'invalid_request', error_description: /x-www-form-urlencoded/ });
    issuer.goAway();
    const later = await startApiFixture(t, { beside: supervisor, exchangeIssuers: [issuer.url] });
    const away = await later.app.inject({
      method: 'POST',
      url: '/oauth/token',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      payload: new URLSearchParams({
        grant_type: GRANT_TYPE,
        subject_token: await forge(),
        subject_token_type: `${TYPE}jwt`,
        audience: accountId,
      }).toString(),
    });
    t.match(away, { statusCode: 503, headers: { 'retry-after': '5' } });
    t.match(away.json(), { error: 'temporarily_unavailable' });
    issuer.comeBack();
  });

  await t.test('until the account ends it: requests are refused, and streams end', async (t) => {
    const { access_token: token } = (await exchange()).body;
    const url = await supervisor.app.listen({ port: 0, host: '127.0.0.1' });
    const headers = { authorization: `Bearer ${token}` };
    const stream = await fetch(`${url}/sessions/stream`, { headers });
    t.equal(stream.status, 200);
    const found = await findDelegation(api.pool, accountId, { issuer: issuer.url, subject: 'helpdesk' });
    t.equal((await ann.delete(`/me/delegations/${allowed.body.id}`)).status, 204);
    const at = new Date(Date.now() + 60 * SECOND);
    const late = { subjectToken: 'x', subjectExpiresAt: at, expiresAt: at, scopes: ['sessions:read'], actor: 'x' };
    t.same(found && (await recordExchange(api.pool, found, late)), { outcome: 'removed' }, 'of an exchange under way');
    await stream.text();
    t.pass('the stream ended');
    t.equal((await call(token, 'GET', '/sessions')).statusCode, 401);
    t.match((await exchange()).body, { error: 'invalid_target' });
    t.equal((await ann.delete(`/me/delegations/${allowed.body.id}`)).status, 404);
  });

  await t.test('60 times a minute', async (t) => {
    await ann.post('/me/delegations', { ...delegation, subject: 'busy' });
    const forged = await Promise.all(Array.from({ length: 80 }, () => forge({ sub: 'busy' })));
    const answers = await Promise.all(forged.map((token) => exchange({ subject_token: token })));
    const refused = answers.filter(({ status }) => status === 429);
    t.ok(refused.length > 0 && refused.length <= 20, `${refused.length} of 80 are refused`);
    t.match(refused[0], { body: { error: 'temporarily_unavailable' }, headers: { 'retry-after': /^\d+$/ } });
  });
});

t.test('a refusal of a request whose body is still being sent leaves its connection open', async (t) => {
  const socket = connect(await listen(await startApiFixture(t, {})), '127.0.0.1');
  t.teardown(() => socket.destroy());
  const bytes = 32 * KIB + 1;
  const head = `POST /oauth/token HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: ${bytes}\r\n\r\n`;
  for (let request = 1; request <= 2; request += 1) {
    socket.write(head);
    const [answer] = await once(socket.setEncoding('latin1'), 'data');
    t.match(answer, /^HTTP\/1\.1 413 .*"error":"invalid_request"/s, `request ${request}`);
    t.notMatch(answer, /^connection: close/im);
    socket.write('x'.repeat(bytes));
  }
});

t.test('a service without issuers says so to the account and to the service', async (t) => {
  const api = await startApiFixture(t, {});
  const ann = await api.user('ann');
  const delegation = { name: 'Helpdesk', issuer: 'https://id.example.com', subject: 'x', scopes: ['sessions:read'] };
  t.match(await ann.post('/me/delegations', delegation), { status: 201, body: { isIssuerConfigured: false } });
  t.match((await ann.get('/me/delegations')).body.items, [{ isIssuerConfigured: false }]);
  const refused = await api.app.inject({
    method: 'POST',
    url: '/oauth/token',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: new URLSearchParams({ grant_type: GRANT_TYPE }).toString(),
  });
  t.match(refused, { statusCode: 400, headers: { 'cache-control': 'no-store' } });
  t.match(refused.json(), {
    error: 'unsupported_grant_type',
    error_description: /its operator has configured no issuer/,
  });
});
