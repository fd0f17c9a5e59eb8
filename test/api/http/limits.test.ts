/** Responses to requests that exceed a limit or need something unavailable. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { consoleFiles } from '../../../api/site/console-files.ts';
import { saveUsageLimits } from '../../../db/accounts/usage.ts';
import { KIB } from '../../../sdk/contract/limits.ts';
import { createApplication } from '../../../service/http/application.ts';
import { IssuerUnavailableError } from '../../../service/identity/oidc.ts';
import { processTree } from '../../deploy/process-tree.ts';
import { killProcess } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';
import { type Client, startApiFixture } from '../api-fixture.ts';
import { fileList, introspectsMinimal as introspect, MINIMAL, upload, zipOf } from '../package/packages.ts';

const body = (semVer: string) => ({ semVer, files: fileList(MINIMAL) });

const plain = await startApiFixture(t, { introspect });
/** Counts few requests of an account. */
const counted = await startApiFixture(t, { introspect, limits: { reads: 2, writes: 2 } });
/** Counts few requests of an address. Each test has addresses of its own. */
const guarded = await startApiFixture(t, { introspect, limits: { anonymous: 2 } });

t.test('reads and writes of an account are counted apart, by the minute', async (t) => {
  const ann = await counted.user('ann');
  const ben = await counted.user('ben');
  for (let count = 0; count < 2; count += 1) t.equal((await ann.get('/me')).status, 200);
  const refused = await ann.get('/me');
  t.equal(refused.status, 429);
  t.equal(refused.body.code, 'rate_limited');
  t.match(refused.headers['content-type'], 'application/problem+json');
  t.ok(Number(refused.headers['retry-after']) > 0);
  t.equal((await ben.get('/me')).status, 200, 'another account is not held up');
  t.equal((await ann.post('/plugins', { slug: 'a', displayName: 'A' })).status, 201, 'nor are writes');
  t.equal((await ann.post('/plugins', { slug: 'b', displayName: 'B' })).status, 201);
  t.equal((await ann.post('/plugins', { slug: 'c', displayName: 'C' })).status, 429);
});

t.test('requests of one address without a token have one limit, whatever they ask for', async (t) => {
  const remoteAddress = '192.0.2.77';
  const statuses: number[] = [];
  for (const url of ['/api/sign-in', '/api/me', '/api/openapi.json', '/api/me'])
    statuses.push((await guarded.app.inject({ url, remoteAddress })).statusCode);
  const exchange = await guarded.app.inject({ method: 'POST', url: '/oauth/token', remoteAddress });
  t.same([...statuses, exchange.statusCode], [200, 401, 429, 429, 429]);
});

t.test('every response states the remaining requests, and a refusal when to retry', async (t) => {
  const cleo = await counted.user('cleo');
  const first = (await cleo.get('/me')).headers;
  t.match(first, { 'ratelimit-limit': '2', 'ratelimit-remaining': '1' });
  t.ok(Number(first['ratelimit-reset']) > 0 && Number(first['ratelimit-reset']) <= 60);
  t.equal((await cleo.get('/nothing-here')).headers['ratelimit-remaining'], undefined);
  t.match((await cleo.get('/plugins')).headers, { 'ratelimit-remaining': '0' });
  const refused = (await cleo.get('/me')).headers;
  t.match(refused, { 'ratelimit-limit': '2', 'ratelimit-remaining': '0' });
  t.ok(Number(refused['retry-after']) > 0 && Number(refused['retry-after']) <= 60);
});

t.test('the limit per address applies before the token is verified, but not to signed-in callers', async (t) => {
  let verified = 0;
  const api = await startApiFixture(t, { introspect, limits: { anonymous: 3 }, onVerify: () => (verified += 1) });
  const ann = await api.user('ann');
  t.equal((await ann.get('/me')).headers['ratelimit-limit'], '100000', 'the account’s own limit');
  const request = (remoteAddress: string, token?: string, url = '/api/me') =>
    ann.send({ method: 'GET', url, remoteAddress, headers: { authorization: token ? `Bearer ${token}` : '' } });
  const first = await request('192.0.2.1', 'nonsense');
  t.match(first, { status: 401, headers: { 'ratelimit-limit': '3', 'ratelimit-remaining': '2' } });
  t.equal((await request('192.0.2.1')).status, 401, 'no token counts too');
  t.equal((await request('192.0.2.1', 'nonsense')).status, 401);
  const before = verified;
  const refused = await Promise.all(Array.from({ length: 20 }, (_, index) => request('192.0.2.1', `more${index}`)));
  for (const answer of refused) {
    t.match(answer, {
      status: 429,
      body: {
        code: 'rate_limited',
        detail: /^Rate limit exceeded: 3 requests per minute of one address without a valid token/,
      },
    });
    t.ok(Number(answer.headers['retry-after']) > 0 && Number(answer.headers['retry-after']) <= 60);
    t.match(answer.headers, { 'ratelimit-remaining': '0' });
  }
  t.equal(verified, before, 'no token was looked at');
  t.equal((await request('192.0.2.1', ann.token)).status, 200, 'a token that was good passes from the same address');
  t.equal((await request('192.0.2.2', 'nonsense')).status, 401, 'another address is not held up');
  t.equal((await request('2001:db8::1', 'a')).status, 401);
  for (const end of ['2', '3']) await request(`2001:db8::${end}`, 'a');
  t.equal((await request('2001:db8::4', 'a')).status, 429, 'a network of IPv6 counts as one');
});

t.test('valid tokens do not count against the limit of an address', async (t) => {
  const request = { method: 'GET', url: '/api/me', remoteAddress: '192.0.2.3' } as const;
  for (let index = 0; index < 6; index += 1)
    t.equal((await (await guarded.user(`user-${index}`)).send(request)).status, 200);
  const ann = await guarded.user('ann');
  const nonsense = { ...request, headers: { authorization: 'Bearer nonsense' } };
  const statuses = [await ann.send(nonsense), await ann.send(nonsense), await ann.send(nonsense)];
  t.same(
    statuses.map(({ status }) => status),
    [401, 401, 429],
  );
});

t.test('twice as many valid tokens as the limit come at the same moment from one address', async (t) => {
  const send = async (count: number) => {
    const users: Awaited<ReturnType<typeof guarded.user>>[] = [];
    for (let index = 0; index < count; index += 1) users.push(await guarded.user(`${count}-together-${index}`));
    const request = { method: 'GET', url: '/api/me', remoteAddress: '192.0.2.4' } as const;
    const answers = await Promise.all(users.map((user) => user.send(request)));
    return answers.map(({ status }) => status);
  };
  t.same(await send(4), [200, 200, 200, 200]);
  const more = await send(40);
  t.ok(more.filter((status) => status === 200).length >= 4, more.join());
  t.ok(more.includes(429), 'no more may wait');
  t.same(await send(3), [200, 200, 200], 'those that were refused do not count');
});

t.test(
  'of many invalid tokens at the same moment, those within the limit are looked at, and valid ones pass',
  async (t) => {
    let verified = 0;
    const api = await startApiFixture(t, { introspect, limits: { anonymous: 3 }, onVerify: () => (verified += 1) });
    const ann = await api.user('ann');
    const send = (token: string) =>
      ann.send({
        method: 'GET',
        url: '/api/me',
        remoteAddress: '192.0.2.5',
        headers: { authorization: `Bearer ${token}` },
      });
    const tokens = ['a', ann.token, ...Array.from({ length: 20 }, (_, index) => `more${index}`)];
    const statuses = (await Promise.all(tokens.map(send))).map(({ status }) => status);
    t.equal(statuses[1], 200);
    t.equal(statuses.filter((status) => status === 401).length, 3, statuses.join(' '));
    t.equal(statuses.filter((status) => status === 429).length, 18);
    t.equal(verified, 4);
  },
);

t.test(
  'a token that cannot be verified during an outage does not count against the limit of its address',
  async (t) => {
    const outage = () => {
      throw new IssuerUnavailableError('no answer');
    };
    const api = await startApiFixture(t, { introspect, limits: { anonymous: 2 }, onVerify: outage });
    const ann = await api.user('ann');
    const statuses: number[] = [];
    for (let count = 0; count < 4; count += 1) statuses.push((await ann.get('/me')).status);
    t.same(statuses, [503, 503, 503, 503]);
  },
);

t.test('X-Forwarded-For is used from a trusted proxy only', async (t) => {
  const requestFrom = (user: { send(options: object): ReturnType<Client['get']> }, from: string, forwarded: string) =>
    user.send({
      method: 'GET',
      url: '/api/me',
      remoteAddress: from,
      headers: { authorization: 'Bearer nonsense', 'x-forwarded-for': forwarded, forwarded: `for=${forwarded}` },
    });
  const forger = await guarded.user('ann');
  const forged: number[] = [];
  for (const end of [1, 2, 3, 4]) forged.push((await requestFrom(forger, '192.0.2.1', `198.51.100.${end}`)).status);
  t.same(forged, [401, 401, 429, 429], 'without the setting a forged header changes nothing');

  const trusting = await startApiFixture(t, {
    introspect,
    limits: { anonymous: 2 },
    trustProxy: ['10.0.0.0/8', '2001:db8::5'],
  });
  const ann = await trusting.user('ann');
  for (const end of [1, 2, 3, 4])
    t.equal((await requestFrom(ann, '10.1.2.3', `198.51.100.${end}`)).status, 401, 'each its own');
  await requestFrom(ann, '2001:db8::5', '198.51.100.1');
  t.equal((await requestFrom(ann, '10.1.2.3', '198.51.100.1')).status, 429, 'one caller by two proxies is one');
  const invented = [];
  for (const end of [1, 2, 3])
    invented.push((await requestFrom(ann, '10.1.2.3', `203.0.113.${end}, 198.51.100.9`)).status);
  t.same(invented, [401, 401, 429], 'what the caller itself wrote into the header does not count');
  const outside = [];
  for (const end of [1, 2, 3]) outside.push((await requestFrom(ann, '192.0.2.1', `203.0.113.${end}`)).status);
  t.same(outside, [401, 401, 429], 'nor does the header of anybody else');
});

t.test('public routes are limited by address', async (t) => {
  const ann = await guarded.user('ann');
  const request = (url: string) => ann.send({ method: 'GET', url, remoteAddress: '192.0.2.4' });
  t.match((await request('/api/docs')).headers, { 'ratelimit-limit': '2' });
  t.equal((await request('/api/sign-in')).status, 200);
  t.equal((await request('/api/sign-in')).status, 429);
  t.equal((await ann.get('/me')).status, 200);
});

t.test('bodies without a token are counted by network, too', async (t) => {
  const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' };
  const signIn = async (remoteAddress: string, pieces: AsyncIterable<Buffer> | Iterable<Buffer>) => {
    const payload = Readable.from(pieces);
    return await plain.app.inject({ method: 'POST', url: '/api/sign-in', remoteAddress, headers, payload });
  };
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const answers: Promise<unknown>[] = [];
  // One network may send so many bodies at once, which may have 4 MiB together.
  for (let host = 1; host <= 128; host += 1) {
    const { promise: isRead, resolve } = Promise.withResolvers<void>();
    const sendHalf = async function* () {
      yield Buffer.alloc(32 * KIB, ' ');
      resolve();
      await over;
    };
    answers.push(signIn(`2001:db8::${host.toString(16)}`, sendHalf()));
    await isRead;
  }
  const further = [Buffer.from('{}')];
  t.match((await signIn('2001:db8::ffff', further)).json(), {
    status: 429,
    code: 'rate_limited',
    detail: /^128 of your/,
  });
  t.equal((await signIn('2001:db8:0:1::1', further)).statusCode, 400, 'another network is not held up');
  end();
  await Promise.all(answers);
});

t.test('security headers restrict the page and other origins', async (t) => {
  const ann = await plain.user('ann');
  const headers = { origin: 'https://elsewhere.example' };
  for (const url of ['/api/me', '/api/plugins/none', '/api/docs', '/api/openapi.json', '/']) {
    const answer = await ann.send({ method: 'GET', url, headers });
    t.notOk(
      Object.keys(answer.headers).some((name) => name.startsWith('access-control-')),
      `${url}: CORS is off`,
    );
    t.match(
      answer.headers,
      { 'x-content-type-options': 'nosniff', 'x-frame-options': /./, 'referrer-policy': /./ },
      url,
    );
    t.match(answer.headers['content-security-policy'], /default-src '(self|none)'/, url);
    t.notOk(answer.headers['x-powered-by'] ?? answer.headers.server, url);
  }
  const preflightHeaders = { ...headers, 'access-control-request-method': 'POST' };
  const preflight = await plain.app.inject({ method: 'OPTIONS', url: '/api/plugins', headers: preflightHeaders });
  t.ok(preflight.statusCode >= 400, 'a preflight is refused');
  t.notOk(preflight.headers['access-control-allow-origin']);
});

t.test('a busy bundler rejects a build of the account that fills it, and accepts one of another', async (t) => {
  const api = await startApiFixture(t, { introspect, bundler: { threads: 1, queue: 3 } });
  const ann = await api.user('ann');
  const { id } = (await ann.post('/plugins', { slug: 'a', displayName: 'A' })).body;
  const slow = fileList({
    ...MINIMAL,
    'index.ts': `${MINIMAL['index.ts']}${'globalThis.a = [1, 2, 3];'.repeat(6_000)}`,
  });
  const send = (index: number) => ann.post(`/plugins/${id}/versions`, { semVer: `1.0.${index}`, files: slow });
  const ben = await api.user('ben');
  const bens = (await ben.post('/plugins', { slug: 'b', displayName: 'B' })).body.id;
  const sent = Promise.all(Array.from({ length: 8 }, (_, index) => send(index)));
  while (api.services.bundler.load().waiting < 2) await sleep(1);
  const ofBen = await ben.post(`/plugins/${bens}/versions`, body('1.0.0'));
  t.equal(ofBen.status, 201, ofBen.body.detail);
  const answers = await sent;
  const busy = answers.filter(({ status }) => status === 503);
  t.ok(busy.length > 0, answers.map(({ status }) => status).join());
  for (const answer of busy) t.equal(answer.body.code, 'bundler_busy');
  t.ok(Number(busy[0]?.headers['retry-after']) > 0);
  t.ok(answers.every(({ status }) => status === 201 || status === 503));
  t.equal((await ann.post(`/plugins/${id}/versions`, body('2.0.0'))).status, 201);
});

t.test('uploads at once are bounded', async (t) => {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  let begun = 0;
  const slow = async () => {
    begun += 1;
    await gate;
    return introspect();
  };
  const api = await startApiFixture(t, { introspect: slow, limits: { uploadsAtOnce: 2 } });
  const ann = await api.user('ann');
  const { id } = (await ann.post('/plugins', { slug: 'a', displayName: 'A' })).body;
  const zip = await zipOf(MINIMAL);
  const send = (semVer: string) =>
    ann.send({ method: 'POST', url: `/api/plugins/${id}/versions/zip`, ...upload(zip, semVer) });
  const first = [send('1.0.0'), send('1.0.1')];
  while (begun < 2) await sleep(5);
  const third = await send('1.0.2');
  t.equal(third.status, 429);
  t.equal(third.body.code, 'rate_limited');
  t.ok(third.headers['retry-after']);
  open();
  t.same(
    (await Promise.all(first)).map(({ status }) => status),
    [201, 201],
  );
});

const listEsbuilds = async () =>
  (await processTree(process.pid)).filter(({ command }) => /^\S*esbuild\b/.test(command));

await soakTest(t, 'an esbuild that is killed is replaced, and the publish passes', async (t) => {
  const api = await startApiFixture(t, { introspect, bundler: { threads: 1 } });
  const ann = await api.user('ann');
  const { id } = (await ann.post('/plugins', { slug: 'a', displayName: 'A' })).body;
  // Another one belongs to the bundler that the other fixtures share.
  const others = (await listEsbuilds()).map(({ pid }) => pid);
  t.equal((await ann.post(`/plugins/${id}/versions`, body('1.0.0'))).status, 201);
  const esbuild = (await listEsbuilds()).filter(({ pid }) => !others.includes(pid));
  t.equal(esbuild.length, 1);
  for (const { pid } of esbuild) killProcess(pid);
  t.equal((await ann.post(`/plugins/${id}/versions`, body('1.0.1'))).status, 201);
});

t.test('an unavailable database is answered with 503 without its error text', async (t) => {
  const ann = await plain.user('ann');
  t.equal((await ann.get('/plugins')).status, 200);
  const query = plain.pool.query;
  const fail = Object.assign(new Error('connect ECONNREFUSED 10.1.2.3:5432 secret words'), { code: 'ECONNREFUSED' });
  plain.pool.query = (() => Promise.reject(fail)) as unknown as typeof query;
  const away = await ann.get('/plugins');
  plain.pool.query = query;
  t.equal(away.status, 503);
  t.equal(away.body.code, 'unavailable');
  t.ok(away.headers['retry-after']);
  t.notMatch(JSON.stringify(away.body), /secret words|5432/);
  plain.pool.query = (() => Promise.reject(new Error('a bug with secret words'))) as unknown as typeof query;
  const bug = await ann.get('/plugins');
  plain.pool.query = query;
  t.equal(bug.status, 500);
  t.equal(bug.body.code, 'internal');
  t.notMatch(JSON.stringify(bug.body), /secret words/);
});

t.test('the landing page describes the service', async (t) => {
  const answer = await plain.app.inject({ method: 'GET', url: '/' });
  t.equal(answer.statusCode, 200);
  t.match(answer.headers['content-type'], 'text/html');
  t.match(answer.body, /Bulkhead is running/);
  t.ok(answer.headers['content-security-policy'], 'with helmet’s headers');
});

t.test('the address of the console answers clients that are no browser', async (t) => {
  const app = createApplication({ bodyMaxBytes: 1, server: {}, onResponse: () => undefined });
  await consoleFiles(app, () => []);
  t.teardown(() => app.close());
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const headers = { connection: 'close' };
  for (const accept of [{}, { accept: 'application/json' }, { accept: 'text/html' }]) {
    const answer = await fetch(url, { headers: { ...headers, ...accept } });
    t.equal(answer.status, 200, JSON.stringify(accept));
    t.match(answer.headers.get('content-type'), /^text\/html/);
    t.match(await answer.text(), /<div id="root">/);
  }
  t.equal((await fetch(url, { method: 'HEAD', headers })).status, 200);
  const unknown = await fetch(`${url}/nowhere`, { headers });
  t.match([unknown.status, await unknown.json()], [404, { code: 'not_found' }], 'another address is no page for them');
});

t.test('a full quota refuses a publish before anything is stored, and a yank makes room', async (t) => {
  const [ann, ben] = [await plain.user('ann'), await plain.user('ben')];
  const usageOf = async (client: Client): Promise<Record<string, number>> => {
    const { status, body: found } = await client.get('/me/usage');
    t.match({ status, nextCursor: found.nextCursor }, { status: 200, nextCursor: null });
    return Object.fromEntries(
      found.items.map((item: { kind: string; usedBytes: number }) => [item.kind, item.usedBytes]),
    );
  };
  const storedBlobs = async () => (await readdir(join(plain.dataDir, 'blobs'), { recursive: true })).length;
  const plugin = (await ann.post('/plugins', { slug: 'full', displayName: 'Full' })).body;
  const packageOf = (letter: string) => fileList({ ...MINIMAL, 'assets/a.txt': letter.repeat(20_000) });
  const publish = (semVer: string) =>
    ann.post(`/plugins/${plugin.id}/versions`, { semVer, files: packageOf(semVer.charAt(0)) });
  const first = (await publish('1.0.0')).body;
  const second = (await publish('2.0.0')).body;
  const { versions = 0 } = await usageOf(ann);
  t.ok(versions > 40_000);
  t.equal((await usageOf(ben)).versions, 0);
  await saveUsageLimits(plain.pool, { versions: versions + 100, drafts: 1_000 });
  const over = await publish('3.0.0');
  t.match(over, { status: 413, body: { code: 'quota_exceeded', errors: [{ field: 'versions' }] } });
  t.match(
    over.body.detail,
    /^Quota exceeded: versions would take \d+ of \d+ bytes\. Yank versions that should not be installed any more\.$/,
  );
  t.match(await ann.post(`/plugins/${plugin.id}/draft`, { files: packageOf('d') }), {
    status: 413,
    body: { errors: [{ field: 'drafts' }] },
  });
  t.equal((await usageOf(ann)).versions, versions);

  await saveUsageLimits(plain.pool, { versions, blobs: 1 });
  const before = await storedBlobs();
  const zip = await zipOf(MINIMAL);
  const url = `/api/plugins/${plugin.id}/versions/zip`;
  t.match(await ann.send({ method: 'POST', url, ...upload(zip, '3.0.0') }), { status: 413 });
  const other = (await ben.post('/plugins', { slug: 'other', displayName: 'Other' })).body;
  t.match(await ben.post(`/plugins/${other.id}/draft`, { files: packageOf('b') }), {
    status: 413,
    body: { errors: [{ field: 'blobs' }] },
  });
  t.equal(await storedBlobs(), before, 'refused packages leave nothing on disk');

  await saveUsageLimits(plain.pool, { versions: versions + 100 });
  t.equal((await ann.post(`/plugins/${plugin.id}/versions/${first.id}/yank`)).status, 200);
  t.equal((await publish('3.0.0')).status, 201);
  const files = (id: string) => ann.get(`/plugins/${plugin.id}/versions/${id}/files`);
  t.match(await files(first.id), { status: 410, body: { code: 'gone' } });
  t.equal((await files(second.id)).status, 200);
  t.match(await publish('1.0.0'), { status: 409, body: { code: 'version_exists' } }, 'its number stays taken');
});
