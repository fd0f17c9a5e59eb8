/** Sends contradicting requests at once: in any order the rules hold, checked in the tables, and no response is a 5xx. */
import t, { type Test } from 'tap';
import { brokenInvariants } from '../../model/invariants.ts';
import { startCachedApi } from '../../model/service.ts';
import { amount, soakTest } from '../../runner/soak.ts';
import { type Answer, type Client, startApiFixture } from '../api-fixture.ts';
import { fileList, INDEX, introspectsMinimal, MINIMAL, readmeWith } from '../package/packages.ts';

/** Rounds of the longest race; the others have a quarter. Each round starts with another call. */
const ROUNDS = amount({ quick: 4, soak: 200 });
/** More than the bundler's queue holds. */
const PUBLISHES = amount({ quick: 24, soak: 64 });
/** Maximum number of tries of a client after `bundler_busy`. */
const TRIES = 200;
const RETRY_MS = 50;
const MORE = { ...MINIMAL, 'index.ts': `${INDEX}events.pluginInstalled = () => {};` };
const ASKING = {
  'readme.md': readmeWith('settings: { city: { required: true } }', 'secrets: { key: { required: true } }'),
  'index.ts': INDEX,
};

const api = await startCachedApi(t);
const ann = await api.user('ann');
const users = await Promise.all(['ben', 'cleo', 'dora'].map((name) => api.user(name)));
let count = 0;

const publish = (who: Client, id: string, semVer: string, files: Parameters<typeof fileList>[0] = MINIMAL) =>
  who.post(`/plugins/${id}/versions`, { semVer, files: fileList(files) });
const draft = (id: string, files: Parameters<typeof fileList>[0] = MINIMAL) =>
  ann.post(`/plugins/${id}/draft`, { files: fileList(files) });
const idOf = ({ status, body }: Answer): string => {
  if (status >= 300) throw new Error(JSON.stringify(body));
  return body.id;
};
async function create(): Promise<{ id: string; slug: string }> {
  const slug = `racing-${++count}`;
  return { slug, id: idOf(await ann.post('/plugins', { slug, displayName: slug })) };
}
/** Runs all calls at once, and fails the test on a 5xx. @returns the statuses */
async function race(t: Test, ...calls: (() => Promise<Answer>)[]): Promise<number[]> {
  const answers = await Promise.all(calls.map((call) => call()));
  const faults = answers.filter(({ status }) => status >= 500);
  if (faults.length > 0) t.fail(JSON.stringify(faults.map(({ body }) => body)));
  return answers.map(({ status }) => status);
}
/** Runs rounds, and checks the invariants after every tenth one, so that a failure names where to look. */
async function rounds(t: Test, times: number, round: (index: number) => Promise<void>): Promise<void> {
  for (let index = 0; index < times; index += 1) {
    await round(index);
    const broken = index % 10 === 9 ? await brokenInvariants(api.pool) : [];
    if (broken.length > 0) return t.same(broken, [], `round ${index}`) as never;
  }
  t.same(await brokenInvariants(api.pool), []);
}

await soakTest(
  t,
  'many publishes of one number make one version, and the real bundler refuses when it is busy',
  async (t) => {
    const real = await startApiFixture(t, { introspect: introspectsMinimal });
    const author = await real.user('author');
    const { body } = await author.post('/plugins', { slug: 'one', displayName: 'One' });
    const statuses: string[] = [];
    const refusals: Answer[] = [];
    const until = async (index: number) => {
      const files = { ...MINIMAL, 'readme.md': `${MINIMAL['readme.md']}\n${index}` };
      for (let tries = 0; tries < TRIES; tries += 1) {
        const answer = await publish(author, body.id, '1.0.0', files);
        if (answer.body.code !== 'bundler_busy') return statuses.push(`${answer.status} ${answer.body.code ?? ''}`);
        if (tries === 0) refusals.push(answer);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
      throw new Error('the bundler stayed busy');
    };
    await Promise.all(Array.from({ length: PUBLISHES }, (_, index) => until(index)));
    t.equal(statuses.filter((status) => status === '201 ').length, 1);
    t.ok(refusals.length > 0, 'the bundler was busy');
    for (const { headers } of refusals) t.match(headers, { 'retry-after': String });
    t.same(new Set(statuses), new Set(['201 ', '409 version_exists']));
    const { rows } = await real.pool.query('SELECT count(*)::int AS count FROM versions');
    t.equal(rows[0].count, 1);
  },
);

t.test('both yanks against delete, listing, accept and install', async (t) => {
  await rounds(t, ROUNDS, async (index) => {
    const { id, slug } = await create();
    const first = idOf(await publish(ann, id, '1.0.0'));
    await ann.post(`/plugins/${id}/listing`);
    const installed = idOf(await (users[0] as Client).post('/installations', { slug }));
    const second = idOf(await publish(ann, id, '1.1.0', MORE));
    const yank = (version: string) => () => ann.post(`/plugins/${id}/versions/${version}/yank`);
    const calls = [
      ...[yank(first), yank(second), () => ann.delete(`/plugins/${id}`), () => ann.post(`/plugins/${id}/listing`)],
      () => ann.delete(`/plugins/${id}/listing`, { deprecationMessage: 'gone' }),
      () => (users[0] as Client).post(`/installations/${installed}/accept-update`, { versionId: second }),
      ...users.slice(1).flatMap((user) => [1, 2].map(() => () => user.post('/installations', { slug }))),
    ];
    const turn = index % calls.length;
    const order = [...calls.slice(turn), ...calls.slice(0, turn)];
    const statuses = await race(t, ...order);
    const statusOf = (call: (typeof calls)[number]) => statuses[order.indexOf(call)];
    const yanks = [statusOf(calls[0] as never), statusOf(calls[1] as never)].sort();
    if (yanks.join() !== '200,409') t.fail(`round ${index}: both yanks answered ${yanks}`);
    if (statusOf(calls[2] as never) !== 409) t.fail(`round ${index}: a published plugin was deleted`);
  });
});

t.test('publish against yank against install against uninstall', async (t) => {
  await rounds(t, ROUNDS / 4, async (index) => {
    const { id, slug } = await create();
    const first = idOf(await publish(ann, id, '1.0.0', index % 2 ? MORE : MINIMAL));
    await ann.post(`/plugins/${id}/listing`);
    const mine = await Promise.all(users.map(async (user) => idOf(await user.post('/installations', { slug }))));
    await race(
      t,
      () => publish(ann, id, '1.1.0', index % 2 ? MINIMAL : MORE),
      () => publish(ann, id, '1.2.0'),
      () => ann.post(`/plugins/${id}/versions/${first}/yank`),
      () => ann.post('/installations', { slug }),
      () => ann.post('/installations', { slug, versionPolicy: 'Pinned', pinnedVersionId: first }),
      ...users.map((user, at) => () => user.delete(`/installations/${mine[at]}`)),
      ...users.map((user) => () => user.post('/installations', { slug })),
    );
  });
});

t.test('configure against a publish that asks for more configuration', async (t) => {
  await rounds(t, ROUNDS / 4, async () => {
    const { id, slug } = await create();
    idOf(await publish(ann, id, '1.0.0', ASKING));
    const installed = idOf(await ann.post('/installations', { slug }));
    const configure = (input: object) => () => ann.post(`/installations/${installed}/configure`, input);
    await race(
      t,
      configure({ settings: { city: 'Bern' } }),
      () => publish(ann, id, '1.1.0', ASKING),
      configure({ secrets: { key: 'k' } }),
      () => ann.patch(`/installations/${installed}`, { hookOrder: 7 }),
    );
    const { body } = await ann.get(`/installations/${installed}`);
    const seen = { status: body.status, semVer: body.currentSemVer, settings: body.settings, order: body.hookOrder };
    const expected = { status: 'ready', semVer: '1.1.0', settings: { city: 'Bern' }, order: 7 };
    if (JSON.stringify(seen) !== JSON.stringify(expected)) t.same(seen, expected);
  });
});

t.test('delete against draft against install and uninstall of the draft', async (t) => {
  await rounds(t, ROUNDS / 4, async (index) => {
    const { id, slug } = await create();
    if ((await draft(id)).status !== 200) throw new Error('no draft');
    const install = () => ann.post('/installations', { slug, versionPolicy: 'Draft' });
    const installed = idOf(await install());
    const calls = [
      ...[() => draft(id, MORE), () => draft(id), install, () => ann.delete(`/installations/${installed}`)],
      () => (index % 2 ? ann.delete(`/plugins/${id}`) : publish(ann, id, '1.0.0')),
    ];
    const turn = index % calls.length;
    await race(t, ...calls.slice(turn), ...calls.slice(0, turn));
  });
});
