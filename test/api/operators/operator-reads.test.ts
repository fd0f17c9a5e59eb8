/**
 * An operator reads everything below others' plugins and installations and changes nothing of it. The routes come from
 * the OpenAPI document, so that one added later is tried too.
 */
import { randomUUIDv7 } from 'node:crypto';
import t from 'tap';
import { findOrCreateAccount, setOperator } from '../../../db/accounts/accounts.ts';
import { insertDeliveries } from '../../../db/channels/deliveries.ts';
import { registerParts } from '../../fixtures/registrations.ts';
import { type Client, startApiFixture } from '../api-fixture.ts';
import { fileList, readmeWith, upload, zipOf } from '../package/packages.ts';

const registrations = registerParts({
  events: ['pluginInstalled'],
  channel: { receive: true, send: false, handshake: false, handshakeOn: null },
});
const api = await startApiFixture(t, { introspect: async () => ({ ok: true, registrations, places: {} }) });
await setOperator(api.pool, (await findOrCreateAccount(api.pool, 'olga')).id, true);
const [ann, ben, olga] = [await api.user('ann'), await api.user('ben'), await api.user('olga')];

// Private, so that only the owner and operators can see it.
const package_ = { 'readme.md': readmeWith(), 'index.ts': 'channel.receive = () => undefined;' };
const files = fileList(package_);
const pluginId = (await ann.post('/plugins', { slug: 'inbox', displayName: 'Inbox' })).body.id as string;
const versionId = (await ann.post(`/plugins/${pluginId}/versions`, { semVer: '1.0.0', files })).body.id as string;
const installationId = (await ann.post('/installations', { slug: 'inbox' })).body.id as string;
const channel = (await ann.post(`/installations/${installationId}/channels`, { name: 'desk' })).body;
const deliveryId = randomUUIDv7();
await insertDeliveries(api.pool, [
  {
    id: deliveryId,
    channelId: channel.id,
    installationId,
    accountId: (await ann.get('/me')).body.id,
    routingId: channel.webhookUrl.split('/').at(-1),
    receivedAt: Date.now(),
    method: 'POST',
    query: '',
    headers: [],
    body: Buffer.from('x'),
  },
]);
// Waits for consent, so that there are changes to read.
const asking = fileList({ ...package_, 'readme.md': readmeWith('capabilities: [host.llm]') });
await ann.post(`/plugins/${pluginId}/versions`, { semVer: '1.1.0', files: asking });
const agentId = randomUUIDv7();
await api.pool.query(
  `INSERT INTO agents (id, account_id, name, instructions, made_by, size_bytes) VALUES ($1, $2, 'A', '', $3, 1)`,
  [agentId, (await ann.get('/me')).body.id, installationId],
);
const eventId = (await ann.get(`/installations/${installationId}/events`)).body.items[0].id as string;

const ids: Readonly<Record<string, string>> = { plugins: pluginId, installations: installationId, agents: agentId };
const named: Readonly<Record<string, string>> = {
  slug: 'inbox',
  versionId,
  channelId: channel.id,
  deliveryId,
  eventId,
};
/** The bodies of writes, besides the ids. */
const bodies: Readonly<Record<string, object>> = {
  'PATCH /installations/{id}': { hookOrder: 5 },
  'PATCH /plugins/{id}': { displayName: 'Other' },
  'PATCH /me/tokens/{id}': { name: 'other' },
  'POST /installations/{id}/configure': { settings: {} },
  'POST /installations/{id}/accept-update': { versionId },
  'POST /installations/{id}/channels': { name: 'other' },
  'POST /installations/{id}/deliveries/replay': { state: 'dead' },
  'POST /plugins/{id}/versions': { semVer: '2.0.0', files },
  'PUT /plugins/{id}/draft': { files },
  'POST /plugins/{id}/draft': { files },
};
const zip = upload(await zipOf(package_), '2.0.0');

// Routes for operators only have a test of their own.
const paths = Object.entries(api.document.paths).filter(([path]) => !path.startsWith('/operator/'));
const routes = paths.flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, { parameters = [], requestBody }]) => {
    const id = ids[path.split('/')[1] ?? ''] ?? '';
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
      const value = name === 'id' ? id : named[name];
      if (value === undefined) throw new Error(`${path}: say above what {${name}} is`);
      return value;
    });
    const asks = parameters.some(({ name }) => name === 'installationId');
    const name = `${method.toUpperCase()} ${path}`;
    const isUpload = requestBody?.content['multipart/form-data'] !== undefined;
    return {
      name,
      method: method.toUpperCase() as 'GET',
      below: path.includes('{') || asks,
      url: `/api${filled}${asks ? `?installationId=${installationId}` : ''}`,
      body: isUpload ? zip : bodies[name] === undefined ? {} : { payload: bodies[name] },
    };
  }),
);
const below = routes.filter((route) => route.below);
const reads = below.filter(({ method }) => method === 'GET');
const writes = below.filter(({ method }) => method !== 'GET');

/** The status of a request. A stream is left at its first word. */
async function ask({ token }: Client, { method, url, body }: (typeof routes)[number]): Promise<number> {
  const headers = { authorization: `Bearer ${token}`, ...('headers' in body ? body.headers : {}) };
  const answer = await api.app.inject({ method, url, ...body, headers, payloadAsStream: true });
  answer.stream().destroy();
  return answer.statusCode;
}

const TABLES = [
  'plugins',
  'versions',
  'installations',
  'channels',
  'channel_addresses',
  'deliveries',
  'events',
  'agents',
];
async function everything(): Promise<unknown[]> {
  const sums = TABLES.map((table) =>
    api.pool.query(`SELECT md5(string_agg(r::text, ' ' ORDER BY r::text)) AS sum FROM ${table} r`),
  );
  return (await Promise.all(sums)).map(({ rows }) => rows[0].sum);
}

t.test('every read below a plugin or installation', async (t) => {
  t.ok(reads.length >= 10, `${reads.length} of them`);
  for (const route of reads) {
    t.equal(await ask(ann, route), 200, `${route.name} for its owner`);
    t.equal(await ask(olga, route), 200, `${route.name} for an operator`);
    t.equal(await ask(ben, route), 404, `${route.name} for somebody else`);
  }
});

t.test('no write below a plugin or installation', async (t) => {
  t.ok(writes.length >= 20, `${writes.length} of them`);
  const before = await everything();
  for (const route of writes) {
    t.equal(await ask(olga, route), 404, `${route.name} for an operator`);
    t.equal(await ask(ben, route), 404, `${route.name} for somebody else`);
  }
  t.same(await everything(), before, 'nothing changed');
});

t.test('an operator’s own lists are its own', async (t) => {
  for (const path of ['/installations', '/plugins', '/marketplace']) {
    t.same((await olga.get(path)).body.items, [], path);
  }
});
