/** The audit log of an installation, for its owner. */
import t from 'tap';
import { type AuditEntry, insertAudit, maintainAudit } from '../../../db/records/audit.ts';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, introspectsMinimal, MINIMAL } from '../package/packages.ts';

t.test('calls and denials are paged, newest first, for their account alone', async (t) => {
  const api = await startApiFixture(t, { introspect: introspectsMinimal });
  const [ann, ben] = [await api.user('ann'), await api.user('ben')];
  const plugin = (await ann.post('/plugins', { slug: 'a', displayName: 'A' })).body;
  await ann.post(`/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
  await ann.post(`/plugins/${plugin.id}/listing`);
  const { id } = (await ann.post('/installations', { slug: 'a' })).body;
  const other = (await ben.post('/installations', { slug: 'a' })).body.id;
  t.same((await ann.get(`/installations/${id}/audit`)).body, { items: [], nextCursor: null });
  await maintainAudit(api.pool);
  const now = new Date().toISOString();
  const entry = (number: number): AuditEntry => ({
    id: `0${number}`,
    at: now,
    installationId: number === 4 ? other : id,
    sessionId: 's',
    invocationId: null,
    member: 'llm.complete',
    outcome: number === 2 ? 'denied' : 'ok',
    durationMs: 1.5,
    argumentsSha256: 'a'.repeat(64),
    detail: number === 2 ? 'not granted' : null,
  });
  await insertAudit(api.pool, [1, 2, 3, 4].map(entry));
  const first = (await ann.get(`/installations/${id}/audit?limit=2`)).body;
  t.same(first.items, [entry(3), entry(2)]);
  const second = (await ann.get(`/installations/${id}/audit?limit=2&cursor=${first.nextCursor}`)).body;
  t.same(
    second.items.map((one: AuditEntry) => one.id),
    ['01'],
  );
  t.equal(second.nextCursor, null);
  t.equal((await ben.get(`/installations/${id}/audit`)).status, 404);
  t.equal((await ann.get('/installations/nope/audit')).status, 404);
  t.equal((await ann.get(`/installations/${id}/audit?limit=0`)).status, 400);
  t.equal((await ann.get(`/installations/${id}/audit?cursor=%20`)).status, 400);
});
