/** Every problem that a route declares can occur. */
import t from 'tap';
import type { Introspect } from '../../../api/services.ts';
import { findOrCreateAccount, setOperator } from '../../../db/accounts/accounts.ts';
import { saveUsageLimits } from '../../../db/accounts/usage.ts';
import { Problem, type ProblemCode } from '../../../sdk/contract/errors.ts';
import type { UsageKind } from '../../../sdk/contract/usage-kinds.ts';
import type { JsonSchema, Operation } from '../../../service/http/openapi.ts';
import { type Client, startApiFixture } from '../api-fixture.ts';
import { fileList, MINIMAL, MINIMAL_INTROSPECTION, readmeWith, upload, zipOf } from '../package/packages.ts';
import { copyVersion } from '../plugins/copied-versions.ts';

let isBusy = false;
const introspect: Introspect = async () => {
  if (isBusy) throw new Problem('bundler_busy', 'Full.', { retryAfter: 1 });
  return MINIMAL_INTROSPECTION;
};
const api = await startApiFixture(t, { introspect, limits: { pluginsPerAccount: 8, installationsPerAccount: 2 } });
const [ann, ben] = [await api.user('ann'), await api.user('ben')];
const files = fileList(MINIMAL);
const make = async (slug: string): Promise<string> => (await ann.post('/plugins', { slug, displayName: slug })).body.id;

const shown = await make('shown');
const version = (await ann.post(`/plugins/${shown}/versions`, { semVer: '1.0.0', files })).body.id;
await ann.post(`/plugins/${shown}/listing`);
const bare = await make('bare');
await make('draftless');
const installed = (await ann.post('/installations', { slug: 'shown' })).body.id;
const unlisted = await make('unlisted');
const configurable = fileList({ ...MINIMAL, 'readme.md': readmeWith('settings: { city: {} }') });
await ann.post(`/plugins/${unlisted}/draft`, { files: configurable });
const drafted = (await ann.post('/installations', { slug: 'unlisted', versionPolicy: 'Draft' })).body.id;
const bens = (await ben.post('/installations', { slug: 'shown' })).body.id;

const blocked = await make('blocked');
await ann.post(`/plugins/${blocked}/versions`, { semVer: '1.0.0', files });
await api.pool.query(`UPDATE plugins SET blocked_reason = 'A test.' WHERE id = $1`, [blocked]);

const grown = await make('grown');
const small = (await ann.post(`/plugins/${grown}/versions`, { semVer: '1.0.0', files })).body.id;
const asking = fileList({ ...MINIMAL, 'readme.md': readmeWith('capabilities: [host.llm]') });
await ann.post(`/plugins/${grown}/versions`, { semVer: '1.1.0', files: asking });
const crowded = await make('crowded');
const first = (await ann.post(`/plugins/${crowded}/versions`, { semVer: '1.0.0', files })).body.id;
await copyVersion(api.pool, first, 1_999);
const withdrawn = await make('withdrawn');
const released = (await ann.post(`/plugins/${withdrawn}/versions`, { semVer: '1.0.0', files })).body.id;
await ann.post(`/plugins/${withdrawn}/versions`, { semVer: '1.0.1', files });
await ann.post(`/plugins/${withdrawn}/versions/${released}/yank`);
await setOperator(api.pool, (await findOrCreateAccount(api.pool, 'olga')).id, true);
const olga = await api.user('olga');
const forOperators = (path: string, body?: object) => ({
  operators_only: () => (body ? ann.post(path, body) : ann.get(path)),
});
const deletedByOperators = (path: string) => ({ operators_only: () => ann.delete(path) });

const zip = await zipOf(MINIMAL);
const sendZip = (client: Client, id: string, semVer: string, bytes: Buffer = zip) =>
  client.send({ method: 'POST', url: `/api/plugins/${id}/versions/zip`, ...upload(bytes, semVer) });
const busy = async <T>(work: () => Promise<T>): Promise<T> => {
  isBusy = true;
  return work().finally(() => {
    isBusy = false;
  });
};
const full = async <T>(kind: UsageKind, work: () => Promise<T>): Promise<T> => {
  await saveUsageLimits(api.pool, { [kind]: 0 });
  return work().finally(() => saveUsageLimits(api.pool, {}));
};
const noText = [{ path: 'readme.md', contentText: 'a\0b' }];

await api.pool.query(
  `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, received_at, method, query, headers,
     body, state)
   SELECT id, 'c', $1, 'a', 'r', now(), 'POST', '', '[]', '', state
     FROM (VALUES ('gone', 'dead'), ('waiting', 'pending')) AS given (id, state)`,
  [installed],
);
await api.pool.query(
  `INSERT INTO events (id, installation_id, account_id, plugin_id, type, data) VALUES ('coming', $1, 'a', $2, 'sessionStarted', '{}')`,
  [installed, shown],
);
await api.pool.query(
  `UPDATE versions SET discovered = jsonb_set(discovered, '{channel}', '{"receive": true}') WHERE plugin_id = $1`,
  [unlisted],
);
await api.pool.query(
  `INSERT INTO channels (id, installation_id, account_id, name, routing_id)
   SELECT 'full' || n, $1, (SELECT account_id FROM installations WHERE id = $1), 'x', 'full' || n FROM generate_series(1, 100) n`,
  [drafted],
);
await ben.post(`/installations/${bens}/pause`);
const decide = (delivery: string, what: string) =>
  ann.post(`/installations/${installed}/deliveries/${delivery}/${what}`);

const service = { name: 'x', issuer: 'https://issuer.example', subject: 'x', scopes: ['account:read'] };
await ann.post('/me/delegations', service);
await api.pool.query(
  `INSERT INTO delegations (id, account_id, name, issuer, subject, scopes)
   SELECT n, (SELECT id FROM accounts WHERE name = 'ben'), 'x', 'https://issuer.example', n, '{}' FROM generate_series(1, 100) n`,
);

const causes: Record<string, Partial<Record<ProblemCode, () => ReturnType<Client['get']>>>> = {
  'POST /me/delegations': {
    id_reused: () => ann.post('/me/delegations', service),
    too_many: () => ben.post('/me/delegations', service),
  },
  'POST /plugins': {
    slug_taken: () => ben.post('/plugins', { slug: 'shown', displayName: 'x' }),
    too_many: () => ann.post('/plugins', { slug: 'ninth', displayName: 'x' }),
  },
  'GET /plugins/{id}': { not_owner: () => ben.get(`/plugins/${shown}`) },
  'PATCH /plugins/{id}': {
    not_owner: () => ben.patch(`/plugins/${shown}`, { displayName: 'x' }),
    published_version_exists: () => ann.patch(`/plugins/${shown}`, { displayName: 'x' }),
  },
  'POST /plugins/{id}/versions': {
    not_owner: () => ben.post(`/plugins/${shown}/versions`, { semVer: '2.0.0', files }),
    version_exists: () => ann.post(`/plugins/${shown}/versions`, { semVer: '1.0.0', files }),
    invalid_package: () => ann.post(`/plugins/${shown}/versions`, { semVer: 'v2', files }),
    text_files_only: () => ann.post(`/plugins/${shown}/versions`, { semVer: '2.0.0', files: noText }),
    bundler_busy: () => busy(() => ann.post(`/plugins/${shown}/versions`, { semVer: '2.0.0', files })),
    quota_exceeded: () => full('versions', () => ann.post(`/plugins/${shown}/versions`, { semVer: '2.0.0', files })),
    too_many: () => ann.post(`/plugins/${crowded}/versions`, { semVer: '2.0.0', files }),
  },
  'POST /plugins/{id}/versions/zip': {
    not_owner: () => sendZip(ben, shown, '2.0.0'),
    version_exists: () => sendZip(ann, shown, '1.0.0'),
    invalid_package: () => sendZip(ann, shown, '2.0.0', Buffer.from('no zip')),
    bundler_busy: () => busy(() => sendZip(ann, shown, '2.0.0')),
    quota_exceeded: () => full('versions', () => sendZip(ann, shown, '2.0.0')),
    too_many: () => sendZip(ann, crowded, '2.0.0'),
  },
  'POST /plugins/{id}/draft': {
    not_owner: () => ben.post(`/plugins/${shown}/draft`, { files }),
    draft_changed: () => ann.post(`/plugins/${shown}/draft`, { files, replaces: 'another' }),
    invalid_package: () => ann.post(`/plugins/${shown}/draft`, { files: [] }),
    text_files_only: () => ann.post(`/plugins/${shown}/draft`, { files: noText }),
    bundler_busy: () => busy(() => ann.post(`/plugins/${shown}/draft`, { files })),
    quota_exceeded: () => full('drafts', () => ann.post(`/plugins/${shown}/draft`, { files })),
  },
  'POST /plugins/{id}/listing': {
    not_owner: () => ben.post(`/plugins/${shown}/listing`),
    no_published_version: () => ann.post(`/plugins/${bare}/listing`),
  },
  'DELETE /plugins/{id}/listing': { not_owner: () => ben.delete(`/plugins/${shown}/listing`) },
  'POST /plugins/{id}/versions/{versionId}/yank': {
    not_owner: () => ben.post(`/plugins/${shown}/versions/${version}/yank`),
    last_version: () => ann.post(`/plugins/${shown}/versions/${version}/yank`),
  },
  'GET /plugins/{id}/versions/{versionId}/files': {
    not_owner: () => ben.get(`/plugins/${shown}/versions/${version}/files`),
    gone: () => ann.get(`/plugins/${withdrawn}/versions/${released}/files`),
  },
  'GET /plugins/{id}/versions/{versionId}/archive': {
    not_owner: () => ben.get(`/plugins/${shown}/versions/${version}/archive`),
    gone: () => ann.get(`/plugins/${withdrawn}/versions/${released}/archive`),
  },
  'GET /plugins/{id}/versions/{versionId}/agent-plugin': {
    not_owner: () => ben.get(`/plugins/${shown}/versions/${version}/agent-plugin`),
    gone: () => ann.get(`/plugins/${withdrawn}/versions/${released}/agent-plugin`),
  },
  'DELETE /plugins/{id}': {
    not_owner: () => ben.delete(`/plugins/${shown}`),
    published_version_exists: () => ann.delete(`/plugins/${shown}`),
    required_installation: async () => {
      await ann.patch(`/installations/${drafted}`, { required: true });
      return ann.delete(`/plugins/${unlisted}`);
    },
  },
  'POST /installations': {
    not_found: () => ann.post('/installations', { slug: 'nothing' }),
    draft_owner_only: () => ben.post('/installations', { slug: 'shown', versionPolicy: 'Draft' }),
    not_pending: () => ann.post('/installations', { slug: 'grown', versionId: small }),
    already_installed: () => ben.post('/installations', { slug: 'shown' }),
    too_many_installations: () => ann.post('/installations', { slug: 'grown' }),
    plugin_blocked: () => ann.post('/installations', { slug: 'blocked' }),
    no_draft: () => ann.post('/installations', { slug: 'draftless', versionPolicy: 'Draft' }),
    no_published_version: () => ann.post('/installations', { slug: 'bare' }),
    invalid_pin: () => ann.post('/installations', { slug: 'shown', versionPolicy: 'Pinned' }),
  },
  'PATCH /installations/{id}': {
    draft_owner_only: () => ben.patch(`/installations/${bens}`, { versionPolicy: 'Draft' }),
    no_draft: () => ann.patch(`/installations/${installed}`, { versionPolicy: 'Draft' }),
    no_published_version: () => ann.patch(`/installations/${drafted}`, { versionPolicy: 'Latest' }),
    invalid_pin: () => ann.patch(`/installations/${installed}`, { versionPolicy: 'Pinned' }),
  },
  'POST /installations/{id}/accept-update': {
    not_pending: () => ann.post(`/installations/${installed}/accept-update`, { versionId: version }),
  },
  'GET /installations/{id}/update-changes': {
    not_pending: () => ann.get(`/installations/${installed}/update-changes`),
  },
  'POST /installations/{id}/retry-update': {
    not_pending: () => ann.post(`/installations/${installed}/retry-update`),
  },
  'POST /installations/{id}/configure': {
    quota_exceeded: () =>
      full('storage', () => ann.post(`/installations/${drafted}/configure`, { settings: { city: 'Bern' } })),
  },
  'POST /installations/{id}/rerun-setup': {
    quota_exceeded: () => full('deliveries', () => ann.post(`/installations/${installed}/rerun-setup`)),
  },
  'POST /installations/{id}/channels': {
    no_channel: () => ann.post(`/installations/${installed}/channels`, { name: 'x' }),
    too_many: () => ann.post(`/installations/${drafted}/channels`, { name: 'x' }),
  },
  'POST /installations/{id}/deliveries/{deliveryId}/replay': {
    no_channel: () => decide('gone', 'replay'),
    delivery_state: () => decide('waiting', 'replay'),
  },
  'POST /installations/{id}/deliveries/{deliveryId}/try-now': { delivery_state: () => decide('gone', 'try-now') },
  'POST /installations/{id}/deliveries/{deliveryId}/give-up': { delivery_state: () => decide('gone', 'give-up') },
  'POST /installations/{id}/events/{eventId}/replay': {
    delivery_state: () => ann.post(`/installations/${installed}/events/coming/replay`),
  },
  'POST /installations/{id}/restart': { not_running: () => ben.post(`/installations/${bens}/restart`) },
  'GET /operator/fleet': forOperators('/operator/fleet'),
  'GET /operator/plugins': forOperators('/operator/plugins'),
  'GET /operator/queues': forOperators('/operator/queues'),
  'POST /operator/plugins/{slug}/block': forOperators('/operator/plugins/shown/block', { reason: 'x' }),
  'POST /operator/plugins/{slug}/unblock': forOperators('/operator/plugins/shown/unblock', {}),
  'POST /operator/accounts/{name}/verify': forOperators('/operator/accounts/ann/verify', {}),
  'POST /operator/accounts/{name}/unverify': forOperators('/operator/accounts/ann/unverify', {}),
  'GET /operator/accounts': forOperators('/operator/accounts'),
  'POST /operator/accounts/{name}/suspend': forOperators('/operator/accounts/ben/suspend', { reason: 'x' }),
  'POST /operator/accounts/{name}/resume': forOperators('/operator/accounts/ben/resume', {}),
  'POST /operator/accounts/{name}/appoint': forOperators('/operator/accounts/ben/appoint', {}),
  'POST /operator/accounts/{name}/demote': forOperators('/operator/accounts/ben/demote', {}),
  'GET /operator/accounts/{name}/tokens': forOperators('/operator/accounts/ben/tokens'),
  'DELETE /operator/accounts/{name}/tokens': deletedByOperators('/operator/accounts/ben/tokens'),
  'DELETE /operator/accounts/{name}/tokens/{id}': deletedByOperators('/operator/accounts/ben/tokens/x'),
  'GET /plugin-logs': { not_found: () => ann.get('/plugin-logs?installationId=nothing') },
  'GET /plugin-logs/stream': { not_found: () => ann.get('/plugin-logs/stream?installationId=nothing') },
};
/** The problems that every route of a kind may return. Each has tests of its own. */
const general: readonly string[] = [
  'bad_request',
  'unauthenticated',
  'insufficient_scope',
  'account_suspended',
  'too_large',
  'unsupported_media_type',
];
const always: readonly string[] = [...general, 'rate_limited', 'internal', 'unavailable'];

function listBodyFields(operation: Operation | undefined): string[] {
  const schema = operation?.requestBody?.content['application/json']?.schema;
  return [schema, ...(schema?.anyOf ?? [])].flatMap((part) => Object.keys((part as JsonSchema)?.properties ?? {}));
}

for (const [path, methods] of Object.entries(api.document.paths)) {
  for (const [method, { responses }] of Object.entries(methods)) {
    const route = `${method.toUpperCase()} ${path}`;
    const declared = Object.entries(responses).flatMap(([status, { description }]) =>
      Number(status) < 400 ? [] : description.split('; ').map((one) => one.split(':', 1)[0] ?? ''),
    );
    const own = declared.filter((code) => !always.includes(code) && !(code === 'not_found' && path.includes('{')));
    t.test(`${route}: ${own.join(', ') || 'nothing of its own'}`, async (t) => {
      t.same(Object.keys(causes[route] ?? {}).sort(), own.sort());
      for (const [code, provoke] of Object.entries(causes[route] ?? {})) t.equal((await provoke()).body.code, code);
      if (!path.includes('{')) return;
      const url = `/api${path.replaceAll(/\{\w+\}/g, 'nothing')}`;
      const body = {
        files,
        semVer: '1.0.0',
        versionId: 'x',
        deprecationMessage: 'x',
        name: 'x',
        state: 'dead',
        reason: 'x',
      };
      const names = listBodyFields(methods[method]);
      const payload = Object.fromEntries(Object.entries(body).filter(([name]) => names.includes(name)));
      const sent = route.endsWith('/zip') ? upload(zip, '1.0.0') : names.length === 0 ? {} : { payload };
      const unknown = await (path.startsWith('/operator/') ? olga : ann).send({
        method: method.toUpperCase() as 'GET',
        url,
        ...sent,
      });
      t.equal(unknown.body.code, 'not_found');
    });
  }
}
