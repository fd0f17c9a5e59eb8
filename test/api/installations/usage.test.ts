/** `GET /installations/{id}/usage`: what a plugin spent of the operator's models. */
import t from 'tap';
import { addUsage, countTokensToday } from '../../../db/accounts/model-usage.ts';
import { untilDayLasts } from '../../fixtures/utc-day.ts';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, introspectsMinimal, MINIMAL } from '../package/packages.ts';

const api = await startApiFixture(t, { introspect: introspectsMinimal });
const [ann, ben] = [await api.user('ann'), await api.user('ben')];
const { id } = (await ann.post('/plugins', { slug: 'asker', displayName: 'Asker' })).body;
await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
const installationId = (await ann.post('/installations', { slug: 'asker' })).body.id as string;
const asker = { installationId, accountId: (await ann.get('/me')).body.id, pluginId: id };

t.test('zero before anything, then sums', async (t) => {
  const nothing = { answers: 0, inputTokens: 0, outputTokens: 0, cost: 0 };
  const before = await ann.get(`/installations/${installationId}/usage`);
  t.same(before.body, { total: nothing, today: nothing, models: [], days: [] });
  await untilDayLasts(api.pool);
  const spent = { answers: 1, inputTokens: 1_000_000_000_000, outputTokens: 3, cost: 0.000_25 };
  await addUsage(api.pool, asker, 'main/big', spent);
  await addUsage(api.pool, asker, 'main/big', spent);
  const { body } = await ann.get(`/installations/${installationId}/usage`);
  const twice = { answers: 2, inputTokens: 2_000_000_000_000, outputTokens: 6, cost: 0.0005 };
  t.match(body, { total: twice, today: twice, models: [{ model: 'main/big', ...twice }], days: [twice] });
  t.match(await ben.get(`/installations/${installationId}/usage`), { status: 404 });
});

t.test('of an installation that is gone, only the tokens of its plugin are kept', async (t) => {
  await untilDayLasts(api.pool);
  const before = await countTokensToday(api.pool, asker);
  const spent = { answers: 1, inputTokens: 1, outputTokens: 1, cost: 1 };
  await addUsage(api.pool, { ...asker, installationId: 'gone' }, 'main/big', spent);
  t.equal((await api.pool.query(`SELECT 1 FROM model_usage WHERE installation_id = 'gone'`)).rowCount, 0);
  t.equal(await countTokensToday(api.pool, asker), before + 2);
});
