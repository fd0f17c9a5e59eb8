/** The OpenAPI document: true, whole, valid, and readable without any other host. */
import { Validator } from '@seriousme/openapi-schema-validator';
import t from 'tap';
import { type ProblemCode, problems } from '../../../sdk/contract/errors.ts';
import type { OpenApiDocument } from '../../../service/http/openapi.ts';
import { checkAnswers } from '../../service/declared-answers.ts';
import { startApiFixture } from '../api-fixture.ts';
import { introspectsMinimal as introspect } from '../package/packages.ts';

const api = await startApiFixture(t, { introspect });
const document = (await api.app.inject('/api/openapi.json')).json<OpenApiDocument>();
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
);

interface Narrowed {
  readonly properties: { readonly code: { readonly enum: readonly ProblemCode[] } };
}

t.test('it is valid OpenAPI 3.1', async (t) => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(JSON.parse(JSON.stringify(document)));
  t.ok(valid, JSON.stringify(errors));
  t.equal(validator.version, '3.1');
  const ids = operations.map(({ operation }) => operation.operationId);
  t.equal(new Set(ids).size, ids.length, 'operation ids differ');
  const text = JSON.stringify(document);
  for (const [, name = ''] of text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
    t.ok(document.components.schemas[name], `${name} is there`);
  }
  t.notMatch(text, /\$defs|__schema|tsType/);
});

t.test('every route is in it, and nothing else', async (t) => {
  // Fastify's own listing, which the document is not made from.
  const listed = api.app.printRoutes({ commonPrefix: false, includeMeta: false });
  const trail: string[] = [];
  const registered: string[] = [];
  for (const line of listed.split('\n')) {
    const [, indent = '', segment = '', methods] = /^([│ ]*)[├└]── (\S*)(?: \(([A-Z, ]+)\))?/.exec(line) ?? [];
    if (segment === '') continue;
    trail.length = indent.length / 4;
    trail.push(segment);
    for (const method of methods?.split(', ') ?? []) registered.push(`${method} ${trail.join('')}`);
  }
  const ours = registered.filter((one) => one.includes(' /api/') && !one.startsWith('HEAD '));
  const described = operations.map(({ method, path }) => `${method} /api${path.replaceAll(/\{(\w+)\}/g, ':$1')}`);
  t.same(described.toSorted(), ours.toSorted());
  t.ok(ours.length > 20);
  for (const head of registered.filter((one) => one.startsWith('HEAD '))) {
    t.ok(registered.includes(head.replace('HEAD', 'GET')), `${head} has its GET`);
  }
});

t.test('every route of the contract is there', async (t) => {
  const expected = [
    ...['POST /plugins', 'GET /plugins', 'GET /plugins/{id}', 'POST /plugins/{id}/versions/zip'],
    ...['POST /plugins/{id}/versions', 'POST /plugins/{id}/draft', 'POST /plugins/{id}/listing'],
    ...['DELETE /plugins/{id}/listing', 'POST /plugins/{id}/versions/{versionId}/yank', 'DELETE /plugins/{id}'],
    ...['GET /plugins/{id}/versions/{versionId}/files', 'GET /marketplace', 'GET /marketplace/{slug}', 'GET /me'],
    ...['POST /installations', 'GET /installations', 'GET /installations/{id}', 'PATCH /installations/{id}'],
    ...['POST /installations/{id}/configure', 'POST /installations/{id}/accept-update'],
    ...['POST /installations/{id}/rerun-setup', 'DELETE /installations/{id}', 'GET /installations/{id}/audit'],
    ...['POST /installations/{id}/pause', 'POST /installations/{id}/resume'],
    ...['GET /plugin-logs', 'GET /plugin-logs/stream', 'GET /openapi.json', 'GET /docs'],
  ];
  const described = operations.map(({ method, path }) => `${method} ${path}`);
  t.same(
    expected.filter((one) => !described.includes(one)),
    [],
  );
});

t.test('every list takes a limit and a cursor', async (t) => {
  const ann = await api.user('ann');
  const lists = operations.filter(({ method, operation }) => {
    const answer = operation.responses['200']?.content?.['application/json']?.schema;
    return method === 'GET' && JSON.stringify(answer ?? null).includes('"nextCursor"');
  });
  t.ok(lists.length > 10);
  for (const { path, operation } of lists) {
    const parameters = operation.parameters?.map(({ name }) => name) ?? [];
    t.ok(parameters.includes('limit') && parameters.includes('cursor'), path);
    const { status, body } = await ann.get(`${path.replaceAll(/\{\w+\}/g, 'none')}?limit=1`);
    if (status === 200) t.ok(body.items.length <= 1, path);
    else t.notMatch(body.detail, /limit/, path);
  }
  const whole = (await ann.get('/me/usage')).body;
  t.equal(whole.nextCursor, null);
  const first = (await ann.get('/me/usage?limit=1')).body;
  const rest = (await ann.get(`/me/usage?cursor=${first.nextCursor}`)).body;
  t.same([...first.items, ...rest.items], whole.items, 'a whole list can be read in pages');
});

t.test('answers are declared with their bodies, refusals with codes that their status has', async (t) => {
  for (const { method, path, operation } of operations) {
    const name = `${method} ${path}`;
    const statuses = Object.keys(operation.responses);
    t.equal(statuses.filter((status) => status.startsWith('2')).length, 1, `${name}: one success`);
    for (const [status, { content, description }] of Object.entries(operation.responses)) {
      if (Number(status) < 400) continue;
      const [, narrowed] = content?.['application/problem+json']?.schema.allOf ?? [];
      const codes = (narrowed as Narrowed | undefined)?.properties.code.enum ?? [];
      t.ok(codes.length > 0, name);
      for (const code of codes) {
        t.equal(problems[code].status, Number(status), `${name} ${code}`);
        t.ok(description.includes(code));
      }
    }
    // Signing in needs no token in its header, and is refused for the one in its body.
    const isSignedIn = operation.security === undefined || name === 'POST /sign-in';
    t.equal('401' in operation.responses, isSignedIn, `${name}: a token, or none`);
  }
});

t.test('responses may get further fields, and requests have only those that are declared', async (t) => {
  const { schemas } = document.components;
  const collect = (part: unknown, found = new Set<string>()): Set<string> => {
    for (const [, name = ''] of JSON.stringify(part ?? null).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      if (found.has(name)) continue;
      found.add(name);
      collect(schemas[name], found);
    }
    return found;
  };
  const responses = operations.map(({ operation }) => operation.responses);
  const requests = operations.map(({ operation }) => operation.requestBody ?? {});
  const answered = collect(responses);
  t.notMatch(JSON.stringify(responses), /"additionalProperties":false/);
  for (const name of answered) t.notMatch(JSON.stringify(schemas[name]), /"additionalProperties":false/, name);
  t.match(JSON.stringify(requests), /"additionalProperties":false/);
  const asked = collect(requests);
  t.same(
    [...asked].filter((name) => answered.has(name)),
    [],
    'no schema is of both',
  );
});

t.test('the response check of all API tests detects undeclared responses', async (t) => {
  const { faultOf } = checkAnswers(document);
  const answer = { method: 'GET', url: '/api/me?x=1', status: 200, contentType: 'application/json; charset=utf-8' };
  const body = { id: '1', name: 'ann', operator: false };
  const problem = {
    type: 'urn:bulkhead:problem:unauthenticated',
    title: 'x',
    status: 401,
    detail: 'x',
    requestId: 'x',
    code: 'unauthenticated',
  };
  const refused = { ...answer, status: 401, contentType: 'application/problem+json', body: problem };
  t.equal(faultOf({ ...answer, body }), null);
  t.equal(faultOf(refused), null);
  t.equal(faultOf({ ...answer, url: '/api/nothing', status: 404, body: {} }), null, 'no route of the document');
  t.match(faultOf({ ...answer, body: { ...body, more: 1 } }), /additional properties/, 'a field too many');
  t.match(faultOf({ ...answer, body: { id: '1', name: 'ann' } }), /operator/, 'a field too few');
  t.match(faultOf({ ...answer, status: 201, body }), /not declared/, 'a status');
  t.match(faultOf({ ...refused, body: { ...problem, code: 'slug_taken' } }), /code/, 'a code');
  t.match(faultOf({ ...refused, contentType: 'application/json' }), /as application\/json/, 'a type');
});

t.test('a response carries no undeclared field', async (t) => {
  const { page } = await import('../../../service/http/schemas.ts');
  const { pluginResource } = await import('../../../api/plugins/plugin-resource.ts');
  const { serializerCompiler } = await import('fastify-type-provider-zod');
  const serialize = serializerCompiler({ schema: page(pluginResource), method: 'GET', url: '/plugins' } as never);
  const ann = await api.user('ann');
  const plugin = (await ann.post('/plugins', { slug: 'a', displayName: 'A' })).body;
  t.ok(serialize({ items: [plugin], nextCursor: null }));
  t.same(JSON.parse(serialize({ items: [{ ...plugin, sealed: 'x' }], nextCursor: null })).items, [plugin], 'a row');
  t.throws(() => serialize({ items: [], nextCursor: null, total: 1 }), 'what the handler composed');
});

t.test('it is read without a token, by programs and by people', async (t) => {
  const json = await api.app.inject({ method: 'GET', url: '/api/openapi.json' });
  t.equal(json.statusCode, 200);
  t.match(json.headers['content-type'], /^application\/json/);
  const page = await api.app.inject({ method: 'GET', url: '/api/docs' });
  t.equal(page.statusCode, 200);
  t.match(page.headers['content-type'], /^text\/html/);
  for (const { method, path } of operations) t.ok(page.body.includes(`${method} ${path}`), `${method} ${path}`);
  t.match(page.headers['content-security-policy'], /^default-src 'none'; style-src 'sha256-[^']+';/);
  t.notMatch(page.headers['content-security-policy'], /unsafe/);
  t.notMatch(
    page.body,
    /<script|<img|<link|<iframe|\son\w+=|style="|(src|href)="(https?:)?\/\//,
    'nothing from elsewhere',
  );
  const anchors = new Set([...page.body.matchAll(/\bid="([^"]+)"/g)].map(([, id]) => id));
  for (const [, target] of page.body.matchAll(/href="#([^"]+)"/g)) t.ok(anchors.has(target), `#${target}`);
  const { createHash } = await import('node:crypto');
  const style = /<style>(.*?)<\/style>/s.exec(page.body)?.[1] ?? '';
  const hash = createHash('sha256').update(style).digest('base64');
  t.ok(String(page.headers['content-security-policy']).includes(hash), 'the policy lets the page’s own style through');
});
