/** The OpenAPI document of the session API: valid, complete, and readable without a token. */
import { Validator } from '@seriousme/openapi-schema-validator';
import { pino } from 'pino';
import t from 'tap';
import { type ProblemCode, problems } from '../../../sdk/contract/errors.ts';
import { hooks } from '../../../sdk/contract/protocol.ts';
import type { OpenApiDocument } from '../../../service/http/openapi.ts';
import { buildSessionApi } from '../../../supervisor/sessions/session-api.ts';
import type { SessionServices } from '../../../supervisor/sessions/session-services.ts';

/** No route is called, so no service is used but these. */
const services = {
  inspections: { allowed: false, close: () => undefined },
  streams: { close: () => undefined },
  signIn: { signIn: () => undefined, knows: () => false },
  metrics: { sessionAnswered: () => undefined },
  faultPoint: () => undefined,
} as object as SessionServices;
const app = await buildSessionApi(services, pino({ level: 'silent' }), {
  url: 'http://localhost:4010',
  consoleUrl: 'http://localhost:4000',
  anonymousPerMinute: 100,
});
t.teardown(() => app.close());
const document = (await app.inject('/openapi.json')).json<OpenApiDocument>();
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
);

t.test('it is valid OpenAPI 3.1, and every reference resolves', async (t) => {
  const { valid, errors } = await new Validator().validate(JSON.parse(JSON.stringify(document)));
  t.ok(valid, JSON.stringify(errors));
  const ids = operations.map(({ operation }) => operation.operationId);
  t.equal(new Set(ids).size, ids.length, 'operation ids differ');
  const text = JSON.stringify(document);
  for (const [, name = ''] of text.matchAll(/"#\/components\/schemas\/([^"]+)"/g))
    t.ok(document.components.schemas[name], name);
  t.notMatch(text, /\$defs|__schema|tsType/);
  t.equal(document.servers[0]?.url, 'http://localhost:4010');
  t.equal(document.externalDocs.url, 'http://localhost:4000/docs');
});

t.test('every call of the contract is in it, with each hook’s own context', async (t) => {
  const names = operations.map(({ name }) => name);
  const session = '/sessions/{sessionId}';
  const expected = [
    'POST /sessions',
    'GET /sessions',
    'GET /sessions/stream',
    `GET ${session}`,
    `DELETE ${session}`,
    `POST ${session}/clear`,
    `POST ${session}/messages`,
    `GET ${session}/messages`,
    `POST ${session}/replies`,
    `POST ${session}/compaction`,
    `GET ${session}/hooks`,
    `POST ${session}/turns`,
    `GET ${session}/turns`,
    `GET ${session}/turns/{turnId}`,
    `GET ${session}/turns/{turnId}/prompt`,
    `POST ${session}/turns/{turnId}/prompt`,
    `POST ${session}/turns/{turnId}/calls/{callId}`,
    `GET ${session}/turns/{turnId}/calls/{callId}`,
    `DELETE ${session}/turns/{turnId}/calls/{callId}`,
    `POST ${session}/turns/{turnId}/output`,
    `POST ${session}/turns/{turnId}/end`,
    ...['tools', 'commands', 'skills', 'providers'].flatMap((kind) => [
      `GET ${session}/${kind}`,
      `POST ${session}/${kind}/{name}`,
    ]),
    ...['GET', 'POST', 'DELETE'].map((method) => `${method} ${session}/mcp`),
    'POST /v1/chat/completions',
    'GET /v1/models',
    'GET /media/{mediaId}',
    'POST /installations/{id}/wake',
    'POST /installations/{id}/fire',
    'POST /installations/{id}/inspector',
    'GET /openapi.json',
    'GET /docs',
  ];
  for (const name of expected) t.ok(names.includes(name), name);
  t.notOk(
    names.some((name) => name.includes('{hook}')),
    'the route for misspelt hooks is not documented',
  );
  for (const [hook, row] of Object.entries(hooks)) {
    if (!hook.startsWith('middleware.')) continue;
    const path = `${session}/hooks/${hook.slice('middleware.'.length)}`;
    const body = document.paths[path]?.post?.requestBody?.content['application/json']?.schema;
    const context = body?.properties?.context as { properties?: object } | undefined;
    t.same(Object.keys(context?.properties ?? {}), Object.keys(row.context.shape), path);
  }
});

t.test('bodies are optional where every field has a default', async (t) => {
  const isRequired = (path: string) => document.paths[path]?.post?.requestBody?.required;
  t.equal(isRequired('/sessions'), true);
  t.equal(isRequired('/sessions/{sessionId}/clear'), false);
  t.equal(isRequired('/sessions/{sessionId}/compaction'), false);
});

t.test('refusals name the codes that their status has', async (t) => {
  for (const { name, operation } of operations) {
    t.equal('401' in operation.responses, operation.security === undefined, `${name}: a token, or none`);
    for (const [status, { description, content }] of Object.entries(operation.responses)) {
      if (Number(status) >= 400) t.not(description, 'Done', `${name} ${status}`);
      const narrowed = content?.['application/problem+json']?.schema.allOf?.[1];
      const codes = (narrowed as { properties: { code: { enum: ProblemCode[] } } } | undefined)?.properties.code.enum;
      for (const code of codes ?? []) t.equal(problems[code].status, Number(status), `${name} ${code}`);
    }
  }
});

t.test('the page needs no token and loads nothing', async (t) => {
  const page = await app.inject('/docs');
  t.equal(page.statusCode, 200);
  t.match(page.headers['content-type'], /^text\/html/);
  t.match(page.headers['content-security-policy'], /^default-src 'none'; style-src 'sha256-[^']+';/);
  t.notMatch(page.body, /<script|<img|<link|<iframe|\son\w+=|style="|src="/);
  for (const { name } of operations) t.ok(page.body.includes(name), name);
  const anchors = new Set([...page.body.matchAll(/\bid="([^"]+)"/g)].map(([, id]) => id));
  for (const [, target] of page.body.matchAll(/href="#([^"]+)"/g)) t.ok(anchors.has(target), `#${target}`);
});

t.test('framework errors are problems with a request id', async (t) => {
  const cases: [string, string, number, string][] = [
    ['GET', '/nowhere', 404, 'not_found'],
    ['GET', '/', 404, 'not_found'],
    ['GET', '/docs/', 404, 'not_found'],
    ['PUT', '/sessions', 405, 'method_not_allowed'],
    ['GET', '/sessions', 401, 'unauthenticated'],
    ['GET', '/sessions/%zz', 400, 'bad_request'],
  ];
  for (const [method, url, status, code] of cases) {
    // Many clients send the header without a body.
    const answer = await app.inject({ method: method as 'GET', url, headers: { 'content-type': 'application/json' } });
    t.match(answer.json(), { status, code }, `${method} ${url}`);
    t.match(answer.headers['content-type'], /^application\/problem\+json/);
    t.equal(answer.headers['x-request-id'], answer.json().requestId);
  }
});

t.test('OPTIONS has an answer of HTTP, whether or not a browser asks for another origin', async (t) => {
  const origin = { origin: 'http://localhost:4000', 'access-control-request-method': 'POST' };
  for (const headers of [{}, origin]) {
    const { statusCode, body } = await app.inject({ method: 'OPTIONS', url: '/sessions', headers });
    t.same([statusCode, body], [204, '']);
  }
});
