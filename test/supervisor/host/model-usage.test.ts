/** The use of the operator's models by plugins: summed by installation, model and day, and bounded a day. */
import type { ServerResponse } from 'node:http';
import t from 'tap';
import { readUsage, sweepUsage, USAGE_DAYS } from '../../../db/accounts/model-usage.ts';
import { removeInstallation } from '../../../db/installations/installation-removal.ts';
import { untilDayLasts } from '../../fixtures/utc-day.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { asCommand, runCommand, startSupervisorFixture } from '../supervisor-fixture.ts';
import {
  openAi,
  openAiDelta,
  openAiEvents,
  openAiReasoning,
  refuse,
  startModelServer,
  stream,
} from './model-server.ts';

const CAP = 40;
const price = { inputPerMillion: 1_000_000, outputPerMillion: 2_000_000 };
const code = asCommand(
  'return (await host.llm.complete({ messages: [{ role: "user", text: "hello" }], ...args })).text;',
);
const asker = { slug: 'asker', capabilities: ['host.llm'], code };

const server = await startModelServer(t);
const free = { id: 'free', name: 'Free', contextWindow: undefined, price: undefined };
const models = [
  {
    ...({ name: 'main', kind: 'openai', baseUrl: server.url, structuredOutputs: true } as const),
    models: [{ ...free, id: 'big', price }, free],
  },
];
const unlimited = await startSupervisorFixture(t, { models });

t.test('sums by model and by day, each installation’s own', async (t) => {
  const fixture = unlimited;
  const { installationId } = await fixture.install(asker);
  const other = await fixture.install({ ...asker, slug: 'other' });
  await untilDayLasts(fixture.pool);
  server.answers = [openAi('hi')];
  for (const model of ['big', 'free', 'big']) t.equal(await runCommand(fixture, 'asker', { model }), 'hi');
  const one = { answers: 1, inputTokens: 11, outputTokens: 7 };
  const total = { answers: 3, inputTokens: 33, outputTokens: 21, cost: 50 };
  const { days, ...usage } = await readUsage(fixture.pool, installationId);
  t.same(usage, {
    total,
    today: total,
    models: [
      { model: 'main/big', answers: 2, inputTokens: 22, outputTokens: 14, cost: 50 },
      { model: 'main/free', ...one, cost: 0 },
    ],
  });
  t.match(days, [{ day: /^\d{4}-\d{2}-\d{2}$/, ...total }]);
  const nothing = { answers: 0, inputTokens: 0, outputTokens: 0, cost: 0 };
  t.same(await readUsage(fixture.pool, other.installationId), { total: nothing, today: nothing, models: [], days: [] });
  await fixture.pool.query(`UPDATE model_usage_days SET day = day - 1`);
  await runCommand(fixture, 'asker', { model: 'free' });
  const later = await readUsage(fixture.pool, installationId);
  t.same([later.total.answers, later.today.answers, later.days.map(({ answers }) => answers)], [4, 1, [1, 3]]);
  await fixture.pool.query(`UPDATE model_usage_days SET day = day - ${USAGE_DAYS - 1}`);
  t.same((await readUsage(fixture.pool, installationId)).days.length, 1);
  await sweepUsage(fixture.pool);
  t.equal((await fixture.pool.query('SELECT 1 FROM model_usage_days')).rowCount, 1, 'old days are forgotten');
  t.equal((await readUsage(fixture.pool, installationId)).total.answers, 4, 'the sums are not');
});

t.test('a limit per day: the refusal says when to retry, and another plugin has its own limit', async (t) => {
  const fixture = await startSupervisorFixture(t, { models, modelTokensPerDay: CAP });
  const { installationId } = await fixture.install(asker);
  await fixture.install({ ...asker, slug: 'other' });
  await untilDayLasts(fixture.pool);
  server.answers = [openAi('hi')];
  server.asked.length = 0;
  for (let used = 0; used < CAP; used += 18) t.equal(await runCommand(fixture, 'asker'), 'hi');
  t.equal(
    await runCommand(fixture, 'asker'),
    'host.llm.complete: this plugin has used 54 of its 40 model tokens of today in this account; it may ask again after midnight UTC, or when the operator raises MODEL_TOKENS_PER_DAY',
  );
  t.equal(server.asked.length, 3, 'a refused request is not counted');
  t.equal(await runCommand(fixture, 'other'), 'hi');
  await fixture.change({ installationId }, `status = 'uninstalling'`);
  await fixture.pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, current_version_id, granted_capabilities, settings, status, hook_order)
     SELECT 'again', account_id, plugin_id, version_policy, current_version_id, granted_capabilities, settings, 'ready', 3
       FROM installations WHERE id = $1`,
    [installationId],
  );
  await fixture.notify('again');
  t.match(await runCommand(fixture, 'asker'), 'has used 54 of its 40', 'while the uninstalled one is being removed');
  await removeInstallation(fixture.pool, fixture.supervisor.queues, installationId);
  t.match(await runCommand(fixture, 'asker'), 'has used 54 of its 40', 'and afterwards');
  t.equal((await readUsage(fixture.pool, 'again')).today.answers, 0);
  await fixture.pool.query(`UPDATE model_usage_days SET day = day - 1`);
  await fixture.pool.query(`UPDATE model_tokens SET day = day - 1`);
  t.equal(await runCommand(fixture, 'asker'), 'hi', 'the next day it may ask again');
  const listTokens = async () =>
    (await fixture.pool.query('SELECT tokens::int FROM model_tokens ORDER BY tokens')).rows;
  t.same(await listTokens(), [{ tokens: 18 }, { tokens: 18 }, { tokens: 54 }]);
  await sweepUsage(fixture.pool);
  t.same(await listTokens(), [{ tokens: 18 }], 'past days are forgotten');
});

t.test('an answer whose endpoint reports no usage, or a wrong one, is not free', async (t) => {
  const fixture = unlimited.withNewAccount();
  const { installationId } = await fixture.install({ ...asker, slug: 'unmetered' });
  const answerWith = (usage: object | null) => (response: ServerResponse) =>
    void stream(response).end(openAiEvents(['x'.repeat(400)], usage));
  const sums: number[][] = [];
  for (const usage of [
    null,
    { prompt_tokens: 0, completion_tokens: 0 },
    { prompt_tokens: 1e300, completion_tokens: 1 },
  ]) {
    server.answers = [answerWith(usage)];
    await runCommand(fixture, 'unmetered', { model: 'free' });
    const { total } = await readUsage(fixture.pool, installationId);
    sums.push([total.inputTokens, total.outputTokens]);
  }
  t.same(sums, [
    [2, 100],
    [4, 200],
    [1_000_000_004, 201],
  ]);
});

t.test('an answer that breaks off is not free, one that never came is', async (t) => {
  const fixture = unlimited.withNewAccount();
  const { installationId } = await fixture.install({ ...asker, slug: 'breaker' });
  server.answers = [
    (response) => void stream(response).write(openAiDelta('x'.repeat(400)), () => response.socket?.destroy()),
  ];
  t.match(await runCommand(fixture, 'breaker'), /main failed|main broke off/);
  const usage = await eventually(async () => {
    const { total } = await readUsage(fixture.pool, installationId);
    return total.outputTokens > 0 && total;
  });
  t.same(usage, { answers: 0, inputTokens: 2, outputTokens: 100, cost: 202 });
  server.answers = [refuse(429, 'slow down', { 'retry-after-ms': '1' })];
  t.equal(
    await runCommand(fixture, 'breaker'),
    'host.llm.complete: main accepts no more requests for now (429); try again later',
    'said when it stays busy',
  );
  t.same((await readUsage(fixture.pool, installationId)).total, usage);
});

soakTest(t, 'an answer that breaks off while the model reasons is not free', async (t) => {
  const fixture = unlimited.withNewAccount();
  const { installationId } = await fixture.install({ ...asker, slug: 'thinker' });
  server.answers = [
    (response) => void stream(response).write(openAiReasoning('x'.repeat(400)), () => response.socket?.destroy()),
  ];
  t.match(await runCommand(fixture, 'thinker'), /main failed|main broke off/);
  await eventually(async () => (await readUsage(fixture.pool, installationId)).total.inputTokens > 0);
  const { total } = await readUsage(fixture.pool, installationId);
  t.same(total, { answers: 0, inputTokens: 2, outputTokens: 100, cost: 202 });
});

soakTest(t, 'a request whose plugin ends before the answer begins is not free', async (t) => {
  const fixture = unlimited.withNewAccount();
  const { installationId } = await fixture.install({ ...asker, slug: 'quitter' });
  server.answers = [stream];
  server.asked.length = 0;
  const asking = runCommand(fixture, 'quitter');
  await eventually(async () => server.asked.length === 1);
  await fixture.supervisor.fleet.retire(installationId, 0);
  await asking;
  await eventually(async () => (await readUsage(fixture.pool, installationId)).total.inputTokens > 0);
  const { total } = await readUsage(fixture.pool, installationId);
  t.same(total, { answers: 0, inputTokens: 2, outputTokens: 0, cost: 2 });
});
