/** Contract: no address leads to what belongs to another account. */
import { ensure, expect } from '../expect.ts';
import { type Chapter, row } from '../row.ts';
import type { Run } from '../run.ts';

type Port = 'rest' | 'sessions';
/** Values of the parameters in addresses, by the start of the address. The first that fits counts. */
type Ids = readonly (readonly [start: string, values: Readonly<Record<string, string>>])[];

/** Their things are not of an account, or everybody reads them. */
const LEFT_OUT = /^\/(operator|docs|webhook)\//;
const REFUSED = new Set([403, 404]);

/** Things of the run's own account, one behind every parameter of an address. */
const ownIds = (run: Run): Promise<Record<Port, Ids>> =>
  run.once('own ids', async () => {
    const { own } = run;
    const kit = await run.kit();
    const installation = `/installations/${kit.installationId}`;
    const channel = await own.need(own.post(`${installation}/channels`, { name: run.slug('foreign') }), 201);
    const webhook = run.webhookAddress(channel.webhookUrl);
    const delivery = await own.need(fetchJson(webhook), 200);
    const events = await run.until('an event', async () => {
      const { items } = await own.need(own.get(`${installation}/events?limit=1`));
      return items.length > 0 && items;
    });
    const { result: agent } = await run.host('agents.create', { name: 'Foreign', instructions: 'None.' });
    const tokens = await own.need(own.get('/me/tokens'));
    const issuer = `https://${run.slug('issuer')}.example`;
    const delegation = await own.need(
      own.post('/me/delegations', { name: 'Foreign', issuer, subject: 'x', scopes: ['sessions:read'] }),
      201,
    );
    run.onClose(`me/delegations/${delegation.id}`, (client) => client.delete(`/me/delegations/${delegation.id}`));
    run.onClose(`agents/${agent.id}`, (client) => client.delete(`/agents/${agent.id}`));
    const sessionId = await run.newSession('foreign');
    const session = `/sessions/${sessionId}`;
    const send = (path: string, body: object, status: 200 | 201 | 202 = 201) =>
      own.need(own.session('POST', `${session}${path}`, body), status);
    await send('/turns', { id: 't1', text: 'hello', trigger: 'user' });
    await send('/turns/t1/calls/c1', { name: 'oven', own: true }, 202);
    const todo = await send('/todos', { title: 'x', trigger: 'user' });
    run.onClose(`todos/${todo.id}`, (client) => client.session('DELETE', `${session}/todos/${todo.id}?trigger=user`));
    const reminder = await send('/notifications', { text: 'x', at: '2099-01-01T00:00:00Z', trigger: 'user' });
    const media = await send('/media', { data: Buffer.from('foreign').toString('base64') });
    const host = {
      id: run.slug('host').slice(-60),
      name: 'x',
      address: 'ssh.example',
      user: 'x',
      password: 'xxxxxxxx',
    };
    await own.need(own.session('POST', '/ssh-hosts', host), 201);
    run.onClose(`ssh-hosts/${host.id}`, (client) => client.session('DELETE', `/ssh-hosts/${host.id}`));
    return {
      rest: [
        ['/plugins/', { id: kit.id, versionId: kit.versionId }],
        [
          '/installations/',
          { id: kit.installationId, channelId: channel.id, deliveryId: delivery.id, eventId: events[0].id },
        ],
        ['/agents/', { id: agent.id }],
        ['/me/tokens/', { id: tokens.items[0]?.id ?? 'none' }],
        ['/me/delegations/', { id: delegation.id }],
        ['/marketplace/', { slug: kit.slug }],
      ],
      sessions: [
        [
          '/sessions/',
          { sessionId, turnId: 't1', callId: 'c1', todoId: todo.id, notifyId: reminder.id, name: `${kit.slug}__host` },
        ],
        ['/media/', { mediaId: media.id }],
        ['/ssh-hosts/', { hostId: host.id }],
        ['/v1/models/', { model: `${kit.slug}__conform/parrot` }],
        ['/installations/', { id: kit.installationId }],
      ],
    };
  });

const fetchJson = async (url: string) => {
  const response = await fetch(url, { method: 'POST', body: 'foreign' });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: JSON.parse(text), text };
};

/** Null: nothing of the account is known for a parameter. */
function fillPath(path: string, ids: Ids): string | null {
  const [, values] = ids.find(([start]) => path.startsWith(start)) ?? ['', {}];
  const filled = path.replaceAll(/\{(\w+)\}/g, (shown, name: string) =>
    Object.hasOwn(values, name) ? encodeURIComponent(values[name] ?? '') : shown,
  );
  return filled.includes('{') ? null : filled;
}

// biome-ignore lint/suspicious/noExplicitAny: schemas of every shape
type Schema = any;
/** Texts that a pattern wants, by the property's name. */
const TEXTS: Readonly<Record<string, string>> = { semVer: '9.9.9', data: 'eA==', hook: 'x' };

/** The smallest value that a schema accepts. */
function fillSchema(schema: Schema, document: Schema, name = ''): unknown {
  const { $ref, anyOf, oneOf, allOf, properties = {}, required = [], items } = schema;
  if ($ref !== undefined) return fillSchema(document.components.schemas[$ref.split('/').at(-1)], document, name);
  if (anyOf ?? oneOf) return fillSchema((anyOf ?? oneOf)[0], document, name);
  if (allOf) return Object.assign({}, ...allOf.map((part: Schema) => fillSchema(part, document, name)));
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const [type] = [schema.type ?? []].flat();
  if (type === 'object')
    return Object.fromEntries(required.map((key: string) => [key, fillSchema(properties[key] ?? {}, document, key)]));
  if (type === 'array') return Array.from({ length: schema.minItems ?? 0 }, () => fillSchema(items ?? {}, document));
  if (type === 'boolean') return false;
  if (type === 'integer' || type === 'number') return schema.minimum ?? (schema.exclusiveMinimum ?? 0) + 1;
  return TEXTS[name] ?? (schema.format === 'date-time' ? '2099-01-01T00:00:00Z' : 'x'.repeat(schema.minLength ?? 1));
}

/** Every operation whose address has a parameter, called by another account with the ids of this one. */
async function findLeaks(run: Run, port: Port): Promise<string[]> {
  const ids = (await ownIds(run))[port];
  const document = await run.document(port);
  const leaks: string[] = [];
  for (const [path, methods] of Object.entries<Schema>(document.paths)) {
    if (!path.includes('{') || LEFT_OUT.test(path)) continue;
    const filled = fillPath(path, ids);
    if (filled === null) leaks.push(`${path}: nothing of the account is known for it`);
    else
      for (const [method, operation] of Object.entries<Schema>(methods)) {
        if (method === 'parameters') continue;
        const status = await callAsOther(run, port, {
          method: method.toUpperCase(),
          path: filled,
          operation,
          document,
        });
        if (!REFUSED.has(status)) leaks.push(`${method.toUpperCase()} ${path}: ${status}`);
      }
  }
  return leaks;
}

interface OtherCall {
  readonly method: string;
  readonly path: string;
  readonly operation: Schema;
  readonly document: Schema;
}

async function callAsOther(run: Run, port: Port, { method, path, operation, document }: OtherCall): Promise<number> {
  const query = (operation.parameters ?? [])
    .filter((parameter: Schema) => parameter.in === 'query' && parameter.required)
    .map((parameter: Schema) => [parameter.name, String(fillSchema(parameter.schema, document, parameter.name))]);
  const address = query.length > 0 ? `${path}?${new URLSearchParams(query)}` : path;
  const content = operation.requestBody?.content ?? {};
  if ('multipart/form-data' in content) {
    const raw = new FormData();
    raw.set('semVer', '9.9.9');
    raw.set('file', new Blob(['x'], { type: 'application/zip' }), 'package.zip');
    return (await run.other.call(method, address, undefined, { raw })).status;
  }
  const schema = content['application/json']?.schema;
  const body = schema === undefined ? undefined : fillSchema(schema, document);
  const answer = await (port === 'rest'
    ? run.other.call(method, address, body)
    : run.other.session(method, address, body));
  return answer.status;
}

const leadsNowhere = (port: Port, name: string) =>
  row(`${name}: no address with an id leads to what is another account’s.`, async (run) => {
    const { own } = run;
    const leaks = await findLeaks(run, port);
    ensure(leaks.length === 0, leaks.join('; '));
    const ids = await ownIds(run);
    for (const [start, values] of ids[port]) {
      const shown = SHOWN[port][start];
      if (shown === undefined) continue;
      const filled = fillPath(shown, [[start, values]]) ?? '';
      const answer = await (port === 'rest' ? own.get(filled) : own.session('GET', filled));
      expect(answer.status, 200, `its own account reads ${filled}`);
    }
  });

/** Requests that read the thing itself, so that a row cannot hold only because nothing has its id. */
const SHOWN: Readonly<Record<Port, Readonly<Record<string, string>>>> = {
  rest: {
    '/plugins/': '/plugins/{id}/versions/{versionId}/files',
    '/installations/': '/installations/{id}/deliveries/{deliveryId}',
    '/agents/': '/agents/{id}',
  },
  sessions: {
    '/sessions/': '/sessions/{sessionId}/turns/{turnId}/calls/{callId}',
    '/media/': '/media/{mediaId}',
    '/ssh-hosts/': '/ssh-hosts/{hostId}',
    '/v1/models/': '/v1/models/{model}',
  },
};

export const foreign: Chapter = {
  title: 'Contract: accounts',
  rows: [
    leadsNowhere('rest', 'The REST interface'),
    leadsNowhere('sessions', 'The session API'),
    row('Ids of another account in bodies and queries: as if nothing had them.', async (run) => {
      const { sessions } = await ownIds(run);
      const of = (start: string) => sessions.find(([path]) => path === start)?.[1] ?? {};
      const { sessionId = '', todoId = '', notifyId = '' } = of('/sessions/');
      const { mediaId = '' } = of('/media/');
      const { hostId = '' } = of('/ssh-hosts/');
      const { other } = run;
      const mine = await run.newSession('other', other);
      const post = (path: string, body: object) => other.session('POST', `/sessions/${mine}${path}`, body);
      const attachments = [{ name: 'x', mediaType: 'text/plain', mediaId }];
      expect((await post('/turns', { id: 'm', text: 'x', trigger: 'user', attachments })).status, 400, 'media');
      expect((await post('/mail', { toAgentId: 'foreign', text: 'x', trigger: 'agent' })).status, 404, 'an agent');
      expect((await post('/ssh', { host: hostId, command: 'id', trigger: 'user' })).status, 404, 'an SSH host');
      expect((await other.session('GET', `/sessions/stream?sessionId=${sessionId}`)).status, 404, 'a stream');
      const waiting = await other.session('GET', `/sessions/unanswered?sessionId=${sessionId}`);
      expect(waiting.body.items, [], 'what waits');
      for (const path of ['/todos', '/notifications', '/ssh-hosts', '/sessions/turns']) {
        const listed = JSON.stringify((await other.session('GET', path)).body.items);
        for (const id of [sessionId, todoId, notifyId, hostId]) ensure(!listed.includes(id), `${path} lists ${id}`);
      }
    }),
  ],
};
