/** The response to every malformed input is a problem of the contract, and never a 500. */
import t, { type Test } from 'tap';
import type { OpenApiDocument } from '../../../service/http/openapi.ts';
import { type Answer, type ApiFixture, startApiFixture } from '../api-fixture.ts';
import { fileList, MINIMAL, multipartOf, upload, zipOf } from '../package/packages.ts';

const api: ApiFixture = await startApiFixture(t);
const ann = await api.user('ann');
const ben = await api.user('ben');
const plugin = (await ann.post('/plugins', { slug: 'mine', displayName: 'Mine' })).body;
const version = (await ann.post(`/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) })).body;
const installation = (await ann.post('/installations', { slug: 'mine' })).body;

function isProblem(t: Test, answer: Answer, status: number, code: string, name: string): void {
  const { body } = answer;
  t.equal(answer.status, status, `${name}: ${JSON.stringify(body)}`);
  t.match(answer.headers['content-type'], 'application/problem+json', name);
  t.match(body, { status, code, title: String, detail: String, type: `urn:bulkhead:problem:${code}` }, name);
  t.equal(body.requestId, answer.headers['x-request-id'], name);
}

const LONE = '\ud800';
const json = (payload: string, url = '/api/plugins', contentType = 'application/json') =>
  ann.send({ method: 'POST', url, payload, headers: { 'content-type': contentType } });

t.test('bodies that are not JSON are rejected', async (t) => {
  const malformed: Record<string, string> = {
    cut: '{"slug": "a"',
    'single quotes': "{'slug': 'a'}",
    prototype: '{"slug":"abc","displayName":"A","__proto__":{"x":1}}',
    constructor: '{"slug":"abc","displayName":"A","constructor":{"prototype":{"x":1}}}',
    'deep nesting': '['.repeat(400_000),
    NaN: '{"slug": NaN}',
  };
  for (const [name, payload] of Object.entries(malformed)) isProblem(t, await json(payload), 400, 'bad_request', name);
  const bytes = Buffer.concat([Buffer.from('{"slug":"'), Buffer.from([0xff]), Buffer.from('","displayName":"A"}')]);
  const invalid = await ann.send({
    method: 'POST',
    url: '/api/plugins',
    payload: bytes,
    headers: { 'content-type': 'application/json' },
  });
  isProblem(t, invalid, 400, 'bad_request', 'invalid UTF-8');
  isProblem(t, await json('{}', '/api/plugins', 'text/plain'), 415, 'unsupported_media_type', 'text/plain');
  isProblem(
    t,
    await json('a=b', '/api/plugins', 'application/x-www-form-urlencoded'),
    415,
    'unsupported_media_type',
    'form',
  );
  isProblem(t, await json(`{"slug":"${'a'.repeat(1_100_000)}"}`), 413, 'too_large', 'over the cap');
});

t.test('only the address for zips takes multipart', async (t) => {
  const document = (await api.app.inject('/api/openapi.json')).json<OpenApiDocument>();
  const form = multipartOf({ name: 'deprecationMessage', content: 'Use another.' });
  let sent = 0;
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const method of Object.keys(methods).map((name) => name.toUpperCase())) {
      if (method === 'GET' || path.endsWith('/zip')) continue;
      const url = `/api${path.replaceAll(/\{\w+\}/g, plugin.id)}`;
      const answer = await ann.send({ method: method as 'POST', url, ...form });
      isProblem(t, answer, 415, 'unsupported_media_type', `${method} ${path}`);
      sent += 1;
    }
  }
  t.ok(sent > 20, `${sent} operations`);
});

t.test('bodies of the wrong shape', async (t) => {
  const anything: unknown[] = [undefined, null, [], 'text', 7, {}, { slug: null }, { slug: {} }, [{ slug: 'a' }]];
  const posts: Record<string, unknown[]> = {
    '/plugins': [
      ...anything,
      ...[
        { slug: 'ok' },
        { slug: 'ok', displayName: 5 },
        { slug: 'ok', displayName: '' },
        { slug: 'ok', displayName: ' x' },
      ],
      ...['', 'A', 'a b', 'a_b', '-a', 'a-', 'a--b', '../a', 'ä', 'a\0', LONE, 'a'.repeat(65)].map((slug) => ({
        slug,
        displayName: 'X',
      })),
      ...['a\0b', LONE, 'a\u202eb', 'x'.repeat(101)].map((displayName) => ({ slug: 'ok', displayName })),
      { slug: 'ok', displayName: 'X', description: 5 },
      { slug: 'ok', displayName: 'X', description: 'a\0' },
    ],
    [`/plugins/${plugin.id}/versions`]: [...anything, { semVer: '2.0.0' }, { semVer: 2, files: [] }, { files: [] }],
    '/installations': [
      ...anything,
      { slug: 'mine', versionPolicy: 'latest' },
      { slug: 'mine', pinnedVersionId: 5 },
      { slug: 'a\0' },
    ],
    [`/installations/${installation.id}/configure`]: [
      null,
      [],
      'text',
      { settings: [] },
      { secrets: 5 },
      { settings: { a: null } },
      { secrets: { a: 5 } },
    ],
  };
  for (const [path, bodies] of Object.entries(posts)) {
    for (const body of bodies) {
      const answer = body === undefined ? await ann.post(path) : await json(JSON.stringify(body), `/api${path}`);
      isProblem(t, answer, 400, 'bad_request', `${path} ${JSON.stringify(body)?.slice(0, 60)}`);
    }
  }
  const files = (list: unknown) =>
    json(JSON.stringify({ semVer: '2.0.0', files: list }), `/api/plugins/${plugin.id}/versions`);
  for (const wrong of [
    'text',
    {},
    [null],
    ['a'],
    [{}],
    [{ path: 'a' }],
    [{ path: 1, contentText: 'x' }],
    [{ path: 'a', contentText: 1 }],
  ]) {
    isProblem(t, await files(wrong), 400, 'bad_request', JSON.stringify(wrong));
  }
});

t.test('ids that nothing has', async (t) => {
  const ids = ['nope', '%00', '%F0%9F%98%80', '..', "';--", 'a'.repeat(200), '01a1fc0f-c772-707f-abab-bc9c4de3ba9f'];
  for (const id of ids) {
    for (const [method, path] of [
      ['GET', `/plugins/${id}`],
      ['POST', `/plugins/${id}/versions`],
      ['GET', `/installations/${id}`],
      ['DELETE', `/installations/${id}`],
      ['POST', `/installations/${id}/configure`],
      ['POST', `/installations/${id}/rerun-setup`],
      ['GET', `/marketplace/${id}`],
    ] as const) {
      const body = path.endsWith('versions')
        ? { semVer: '1.0.0', files: fileList(MINIMAL) }
        : path.endsWith('configure')
          ? {}
          : undefined;
      const answer = await ann.send({ method, url: `/api${path}`, ...(body ? { payload: body } : {}) });
      if (id === '..' && answer.status === 405) continue;
      isProblem(t, answer, 404, 'not_found', `${method} ${path.slice(0, 60)}`);
    }
  }
  isProblem(t, await ann.post('/installations', { slug: 'unknown' }), 404, 'not_found', 'unknown slug');
  isProblem(t, await ann.send({ method: 'GET', url: '/api/plugins/%zz' }), 400, 'bad_request', 'a bad escape');
  isProblem(t, await ann.get(`/plugins/${'a'.repeat(300)}`), 404, 'not_found', 'a long id');
});

t.test('queries of the wrong shape', async (t) => {
  const queries = [
    '/plugins?limit=0',
    '/plugins?limit=1.5',
    '/plugins?limit=',
    '/plugins?cursor=%00',
    '/plugins?cursor=AAAA',
  ];
  queries.push('/installations?limit=-1', '/marketplace?limit=1e9', '/marketplace?q=%00', '/marketplace?q=a&q=b');
  queries.push(`/plugins/${plugin.id}?includeFiles=maybe`, `/marketplace?q=${'a'.repeat(201)}`);
  queries.push(`/plugin-logs?installationId=${installation.id}&sessionId=%00`);
  for (const path of queries) isProblem(t, await ann.get(path), 400, 'bad_request', path);
});

t.test('unknown fields and parameters are refused with the nearest name', async (t) => {
  const at = `/installations/${installation.id}`;
  const posts: [string, unknown, string, RegExp][] = [
    ['/plugins', { slug: 'ok', displayName: 'X', name: 'X' }, 'name', /did you mean “displayName”/],
    ['/plugins', { slug: 'ok', displayname: 'X' }, 'displayname', /did you mean “displayName”/],
    ['/installations', { slug: 'mine', policy: 'Pinned' }, 'policy', /did you mean “versionPolicy”/],
    ['/installations', { slug: 'mine', zebra: 1 }, 'zebra', /known: slug, versionPolicy, /],
    [`${at}/configure`, { setings: { a: 'b' } }, 'setings', /did you mean “settings”/],
    [`${at}/accept-update`, { versionId: version.id, semVer: '1.0.0' }, 'semVer', /is not known; /],
    [`${at}/rerun-setup`, { reason: 'x' }, 'reason', /is not known; leave it out/],
    [`/plugins/${plugin.id}/listing`, { deprecationMessage: 'x' }, 'deprecationMessage', /leave it out/],
    [
      `/plugins/${plugin.id}/versions`,
      { semVer: '2.0.0', files: [{ path: 'index.ts', contentText: '', mode: '0644' }] },
      'files.0.mode',
      /is not known; known: path, contentText/,
    ],
  ];
  for (const [path, body, field, message] of posts) {
    const answer = await ann.post(path, body);
    isProblem(t, answer, 400, 'bad_request', path);
    t.match(answer.body.errors, [{ field, message }], path);
  }
  const patch = await ann.patch(at, { policy: 'Pinned' });
  isProblem(t, patch, 400, 'bad_request', 'PATCH');
  t.match(patch.body.detail, 'policy: is not known; did you mean “versionPolicy”?');
  const both = await ann.patch(at, { versionPolicy: 'latest', hookorder: 1, x: 1 });
  t.same(
    both.body.errors.map(({ field }: { field: string }) => field),
    ['hookorder', 'x'],
    'all at once',
  );
  const queries: [string, RegExp][] = [
    [`/plugin-logs?installationId=${installation.id}&levels[]=warn`, /levels\[\]: is not known; did you mean “levels”/],
    [`/plugin-logs?installationId=${installation.id}&level=warn`, /did you mean “levels”/],
    ['/plugins?limit=1&limit=2', /^query limit: must be given once$/],
    [`/plugins/${plugin.id}?includefiles=true`, /did you mean “includeFiles”/],
    ['/marketplace?search=x', /known: limit, cursor, q/],
    [`/marketplace/mine?x=1`, /query x: is not known; leave it out/],
  ];
  for (const [path, detail] of queries) {
    const answer = await ann.get(path);
    isProblem(t, answer, 400, 'bad_request', path);
    t.match(answer.body.detail, detail, path);
  }
});

t.test('queries and lists of files that are too long are refused with one fault', async (t) => {
  const parameters = Array.from({ length: 4_000 }, (_, index) => index.toString(36)).join('&');
  for (const path of ['/plugins', '/nothing-here/plugins', '/me']) {
    const answer = await ann.get(`${path}?${parameters}`);
    isProblem(t, answer, path === '/nothing-here/plugins' ? 404 : 400, answer.body.code, path);
    if (answer.status === 400) t.equal(answer.body.detail, 'The query has more than 100 parameters. Send fewer.', path);
  }
  const publish = (body: object) => ann.post(`/plugins/${plugin.id}/versions`, { semVer: '2.0.0', ...body });
  const tooMany = await publish({ files: Array(10_001).fill(0) });
  isProblem(t, tooMany, 422, 'invalid_package', 'too many files');
  const wrong = await publish({ files: Array(10_000).fill(0) });
  t.same(wrong.body.errors, [{ field: 'files.0', message: 'must be an object, not a number' }]);
});

t.test('a created resource has an address', async (t) => {
  const located = async (answer: Answer) =>
    (await ann.send({ method: 'GET', url: String(answer.headers.location) })).status;
  const made = await ann.post('/plugins', { slug: 'located', displayName: 'Located' });
  t.equal(made.headers.location, `/api/plugins/${made.body.id}`);
  t.equal(await located(made), 200);
  const files = fileList(MINIMAL);
  t.equal(await located(await ann.post(`/plugins/${made.body.id}/versions`, { semVer: '1.0.0', files })), 200);
  const zip = upload(await zipOf(MINIMAL), '1.0.1');
  const url = `/api/plugins/${made.body.id}/versions/zip`;
  t.equal(await located(await ann.send({ method: 'POST', url, ...zip })), 200);
  t.equal(await located(await ann.post('/installations', { slug: 'located' })), 200);
});

t.test('times that no timestamp can name', async (t) => {
  const read = (from: string, to: string) => ann.get(`/installations/${installation.id}/metrics?from=${from}&to=${to}`);
  const refused = [
    ['0001-01-01T00:00:00Z', '2026-01-01T00:00:00Z'],
    ['2026-01-01T00:00:00Z', '9999-12-31T23:59:59Z'],
  ] as const;
  for (const [from, to] of refused) isProblem(t, await read(from, to), 400, 'bad_request', `${from} to ${to}`);
  t.equal((await read('1970-01-02T00:00:00Z', '3000-01-01T00:00:00Z')).status, 200);
});

t.test('addresses and methods that are not there', async (t) => {
  isProblem(t, await ann.get('/nothing'), 404, 'not_found', 'unknown');
  isProblem(t, await ann.send({ method: 'GET', url: '/elsewhere' }), 404, 'not_found', 'outside');
  const slashed = await ann.get('/me/');
  isProblem(t, slashed, 404, 'not_found', 'a slash at the end');
  t.equal(slashed.body.detail, 'No route has this address. Use /api/me, without the slash at its end.');
  isProblem(t, await ann.post('/me/', {}), 404, 'not_found', 'a slash at the end, with another method');
  const wrong = await ann.delete('/plugins');
  isProblem(t, wrong, 405, 'method_not_allowed', 'method');
  t.equal(wrong.headers.allow, 'GET, HEAD, POST');
  const headers = { 'content-type': 'application/json' };
  isProblem(
    t,
    await ann.send({ method: 'DELETE', url: '/api/plugins', headers }),
    405,
    'method_not_allowed',
    'no body',
  );
  const body = { method: 'POST', url: '/api/nothing', headers, payload: '{' } as const;
  isProblem(t, await ann.send(body), 404, 'not_found', 'a body that is not JSON');
  const plugin = (await ann.post('/plugins', { slug: 'short-lived', displayName: 'Short-lived' })).body;
  const url = `/api/plugins/${plugin.id}`;
  t.equal((await ann.send({ method: 'DELETE', url, headers })).status, 204, 'an empty body is no body');
});

t.test('every route rejects requests without a valid token', async (t) => {
  const headers = [
    '',
    'Bearer',
    'Bearer x',
    'Basic YTpi',
    `Bearer ${ann.token}x`,
    `Bearer ${ann.token} x`,
    `Bearer ${'a'.repeat(20_000)}`,
  ];
  for (const authorization of headers) {
    const answer = await ann.send({ method: 'GET', url: '/api/me', headers: { authorization } });
    isProblem(t, answer, 401, 'unauthenticated', authorization.slice(0, 40));
    t.equal(answer.headers['www-authenticate'], 'Bearer');
  }
  const publish = await api.app.inject({
    method: 'POST',
    url: `/api/plugins/${plugin.id}/versions/zip`,
    ...upload(await zipOf(MINIMAL), '3.0.0'),
  });
  t.equal(publish.statusCode, 401);
  t.match((await ann.get('/me')).body, { name: 'ann', operator: false });
  t.not((await ben.get('/me')).body.id, (await ann.get('/me')).body.id);
});

t.test('multipart bodies of the wrong shape', async (t) => {
  const zip = await zipOf(MINIMAL);
  const url = `/api/plugins/${plugin.id}/versions/zip`;
  const send = (...parts: Parameters<typeof multipartOf>) =>
    ann.send({ method: 'POST', url, ...multipartOf(...parts) });
  const file = { name: 'file', filename: 'p.zip', content: zip };
  const semVer = { name: 'semVer', content: '2.0.0' };
  isProblem(t, await send(semVer), 400, 'bad_request', 'no file');
  isProblem(t, await send(file), 400, 'bad_request', 'no semVer');
  isProblem(t, await send(), 400, 'bad_request', 'no parts');
  isProblem(t, await send(file, file, semVer), 400, 'bad_request', 'two files');
  isProblem(t, await send(semVer, semVer, file), 400, 'bad_request', 'two numbers');
  isProblem(t, await send(semVer, { ...file, name: 'package' }), 400, 'bad_request', 'a wrong name');
  isProblem(t, await send(semVer, { name: 'file', content: 'text' }), 400, 'bad_request', 'a file that is a field');
  isProblem(t, await send({ name: '__proto__', content: 'x' }, semVer, file), 400, 'bad_request', 'a prototype name');
  isProblem(t, await send({ ...semVer, content: '1'.repeat(100_000) }, file), 422, 'invalid_package', 'a long number');
  isProblem(t, await send(...Array.from({ length: 50 }, () => semVer)), 400, 'bad_request', 'many parts');
  isProblem(t, await send(semVer, { ...file, content: '' }), 422, 'invalid_package', 'an empty file');
  const noZip = await send(semVer, { ...file, content: 'no zip at all' });
  isProblem(t, noZip, 422, 'invalid_package', 'no zip');
  t.same(noZip.body.errors, [{ message: noZip.body.detail }]);
  const whole = upload(zip, '2.0.0');
  for (const cut of [0.1, 0.5, 0.9]) {
    const payload = whole.payload.subarray(0, whole.payload.length * cut);
    isProblem(
      t,
      await ann.send({ method: 'POST', url, headers: whole.headers, payload }),
      400,
      'bad_request',
      `cut at ${cut}`,
    );
  }
  const noBoundary = await ann.send({
    method: 'POST',
    url,
    payload: whole.payload,
    headers: { 'content-type': 'multipart/form-data' },
  });
  isProblem(t, noBoundary, 400, 'bad_request', 'no boundary');
  const others: Record<string, Answer> = {
    JSON: await json('{}', url),
    'JSON with a field': await json('{"semVer":"1.2.0"}', url),
    'the zip itself': await ann.send({
      method: 'POST',
      url,
      payload: zip,
      headers: { 'content-type': 'application/zip' },
    }),
    'a malformed type': await json('{}', url, 'zip'),
    'no body': await ann.send({ method: 'POST', url }),
  };
  for (const [name, answer] of Object.entries(others)) {
    isProblem(t, answer, 415, 'unsupported_media_type', name);
    t.equal(answer.body.detail, 'Send the package as multipart/form-data with file and semVer.', name);
  }
  const traversal = await send(semVer, { ...file, filename: '../../etc/passwd' });
  t.equal(traversal.status, 201, 'the client’s file name means nothing');
  const after = await send(file, { ...semVer, content: '2.0.1' });
  t.equal(after.status, 201, 'the number may follow the file');
});

t.test('other people’s things', async (t) => {
  isProblem(t, await ben.get(`/plugins/${plugin.id}`), 404, 'not_found', 'a private plugin');
  await api.pool.query(`UPDATE plugins SET visibility = 'listed' WHERE id = $1`, [plugin.id]);
  isProblem(t, await ben.get(`/plugins/${plugin.id}`), 403, 'not_owner', 'a listed plugin');
  const body = { semVer: '9.0.0', files: fileList(MINIMAL) };
  isProblem(t, await ben.post(`/plugins/${plugin.id}/versions`, body), 403, 'not_owner', 'publishing into it');
  const zip = await ben.send({
    method: 'POST',
    url: `/api/plugins/${plugin.id}/versions/zip`,
    ...upload(await zipOf(MINIMAL), '9.0.0'),
  });
  isProblem(t, zip, 403, 'not_owner', 'uploading into it');
  isProblem(
    t,
    await ben.post('/installations', { slug: 'mine', versionPolicy: 'Draft' }),
    403,
    'draft_owner_only',
    'its draft',
  );
  const installed = await ben.post('/installations', { slug: 'mine' });
  t.equal(installed.status, 201);
  t.not(installed.body.id, installation.id);
  t.equal(version.status, 'published');
});
