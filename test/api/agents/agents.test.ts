/** The agents that plugins keep: listed with who made them, and removed by their user with their sessions. */
import { randomUUIDv7 } from 'node:crypto';
import t from 'tap';
import { createAgent } from '../../../db/accounts/agents.ts';
import { createSession } from '../../../db/sessions/sessions.ts';
import { registerParts } from '../../fixtures/registrations.ts';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, readmeWith } from '../package/packages.ts';

const registrations = registerParts({ events: ['sessionDeleted'] });
const api = await startApiFixture(t, { introspect: async () => ({ ok: true, registrations, places: {} }) });
const [ann, ben] = [await api.user('ann'), await api.user('ben')];
const accountId = (await ann.get('/me')).body.id as string;
const pluginId = (await ann.post('/plugins', { slug: 'crew', displayName: 'Crew' })).body.id as string;
const files = fileList({ 'readme.md': readmeWith(), 'index.ts': 'events.sessionDeleted = () => undefined;' });
await ann.post(`/plugins/${pluginId}/versions`, { semVer: '1.0.0', files });
const installationId = (await ann.post('/installations', { slug: 'crew' })).body.id as string;

const add = async (madeBy: string | null, name: string): Promise<string> =>
  (await createAgent(api.pool, { accountId, madeBy }, { name, instructions: 'Help.' }))?.id ?? '';

t.test('pages of them, oldest first, for their account only', async (t) => {
  const [first, second] = [await add(installationId, 'First'), await add(null, 'Second')];
  const one = await ann.get('/agents?limit=1');
  t.match(one, {
    status: 200,
    body: { items: [{ id: first, name: 'First', instructions: 'Help.', model: null, installationId, slug: 'crew' }] },
  });
  const rest = await ann.get(`/agents?limit=1&cursor=${one.body.nextCursor}`);
  t.match(rest.body, { items: [{ id: second, installationId: null, slug: null }], nextCursor: null });
  t.same((await ann.get(`/agents/${first}`)).body, one.body.items[0]);
  t.same((await ben.get('/agents')).body.items, []);
  for (const answer of [await ben.get(`/agents/${first}`), await ben.delete(`/agents/${first}`)]) {
    t.match(answer, { status: 404, body: { code: 'not_found' } });
  }
  t.equal((await ann.get('/agents/nobody')).status, 404);
  t.equal((await ann.get(`/agents?cursor=%00`)).status, 400);
});

t.test('a removed one goes with its sessions, and plugins hear of each', async (t) => {
  const agentId = await add(installationId, 'Leaving');
  const agent = { accountId, agentName: 'A', channelId: null };
  const session = await createSession(api.pool, { ...agent, agentId });
  const kept = await createSession(api.pool, { ...agent, agentId: randomUUIDv7() });
  t.equal((await ann.delete(`/agents/${agentId}`)).status, 204);
  t.equal((await ann.delete(`/agents/${agentId}`)).status, 404);
  t.equal((await ann.get(`/agents/${agentId}`)).status, 404);
  const { rows } = await api.pool.query('SELECT id FROM sessions');
  t.same(rows, [{ id: kept.id }]);
  const events = (await ann.get(`/installations/${installationId}/events`)).body.items;
  t.match(
    events.filter(({ type }: { type: string }) => type === 'sessionDeleted'),
    [{ state: 'pending' }],
  );
  const deletions = await api.pool.query(`SELECT data FROM events WHERE type = 'sessionDeleted'`);
  t.same(deletions.rows, [{ data: { sessionId: session.id, agentId } }]);
});
