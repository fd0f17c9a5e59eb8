/** An account owns a bounded number of plugins, which bounds what its catalog searches read. */
import t from 'tap';
import { startApiFixture } from '../api-fixture.ts';

const QUOTA = 3;
const api = await startApiFixture(t, { readsInProcess: true, limits: { pluginsPerAccount: QUOTA } });
const [ann, ben] = [await api.user('ann'), await api.user('ben')];

t.test('concurrent requests create as many plugins as an account may own; a deleted one makes room', async (t) => {
  const create = (n: number) => ann.post('/plugins', { slug: `plugin-${n}`, displayName: 'x' });
  const made = await Promise.all(Array.from({ length: QUOTA + 3 }, (_, n) => create(n)));
  const refused = made.filter(({ status }) => status !== 201);
  t.equal(refused.length, 3);
  for (const { status, body } of refused)
    t.match({ status, body }, { status: 409, body: { code: 'too_many', detail: /maximum of 3 plugins\. Delete one/ } });
  t.equal((await ann.get('/plugins')).body.items.length, QUOTA);
  t.equal((await ben.post('/plugins', { slug: 'bens', displayName: 'x' })).status, 201);
  const { id } = made.find(({ status }) => status === 201)?.body ?? {};
  t.equal((await ann.delete(`/plugins/${id}`)).status, 204);
  t.equal((await create(QUOTA + 3)).status, 201);
});
