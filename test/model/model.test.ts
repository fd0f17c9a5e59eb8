/**
 * The service against the reference model: random steps of three accounts, compared after each.
 *
 * A failure prints seed and path, and the shortest steps that still fail.
 */
import { deepEqual } from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import type { Answer } from '../api/api-fixture.ts';
import { fileList } from '../api/package/packages.ts';
import { amount, seed } from '../runner/soak.ts';
import { compare } from './comparison.ts';
import { brokenInvariants } from './invariants.ts';
import { packages } from './packages.ts';
import { openReality, type Reality } from './reality.ts';
import { type Configuration, Model, type Outcome } from './reference.ts';
import { startCachedApi } from './service.ts';
import { steps } from './steps.ts';

const WANTED = amount({ quick: 40, soak: 50_000 });
/** A long run goes on until each kind of step has succeeded, at most so far. */
const MOST = amount({ quick: WANTED, soak: 5 * WANTED });
/** Steps of one run at most: long enough for several versions, followers and drafts of a plugin. */
const RUN_MAX = amount({ quick: 40, soak: 150 });
const RUNS_PER_BATCH = amount({ quick: 1, soak: 5 });
/** A batch, or the search for fewer steps that still fail. A busy machine needs more than a minute for one run. Milliseconds. */
const BATCH_MS = 300_000;

/** The first words of what `steps.ts` makes. */
const STEPS = [
  ...['accept', 'change', 'configure', 'create', 'delete', 'delist', 'draft', 'finish', 'install', 'list', 'pause'],
  ...['publish', 'rerun-setup', 'resume', 'uninstall', 'yank'],
];

const api = await startCachedApi(t);

t.test(`${WANTED} steps do what the model says`, async (t) => {
  let made = 0;
  const kinds = new Map<string, number>();
  const count = (step: string, status: number) => {
    made += 1;
    const kind = `${step.split(' ')[0]} ${status}`;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  };
  let run = 0;
  const setup = async () => {
    run += 1;
    return { model: new Model(), real: await openReality(api, `${seed.toString(36)}x${run}`, count) };
  };
  const oneRun = async (commands: Iterable<fc.AsyncCommand<Model, Reality>>) => {
    let last: { model: Model; real: Reality } | undefined;
    await fc.asyncModelRun(async () => {
      last = await setup();
      return last;
    }, commands);
    deepEqual(await brokenInvariants(api.pool), []);
    if (last) deepEqual(await told(last.model), expectedEvents(last.model));
  };
  let running: Promise<void> = Promise.resolve();
  const property = fc.asyncProperty(fc.commands(steps, { maxCommands: RUN_MAX, size: 'max' }), (commands) => {
    running = oneRun(commands);
    return running;
  });
  const listMissing = (): string[] => {
    const done = [...kinds.keys()].filter((kind) => / 2\d\d$/.test(kind)).map((kind) => kind.split(' ')[0]);
    return STEPS.filter((step) => !done.includes(step));
  };
  for (let batch = 0; made < WANTED || (made < MOST && listMissing().length > 0); batch += 1) {
    const limits = { numRuns: RUNS_PER_BATCH, interruptAfterTimeLimit: BATCH_MS };
    await fc.assert(property, { seed: seed + batch, ...limits });
    // A batch whose time is over leaves its last run going, which the next one's clean tables would trip up.
    await running;
  }
  t.ok(made >= WANTED, `${made} steps in ${run} runs from seed ${seed}`);
  if (MOST > WANTED) t.same(listMissing(), [], 'each kind of step succeeded at least once');
  t.comment(
    [...kinds]
      .sort()
      .map(([kind, times]) => `${kind}: ${times}`)
      .join(', '),
  );
});

t.test('a pending update begins once it needs nothing more, as the model says', async () => {
  const model = new Model();
  const real = await openReality(api, `${seed.toString(36)}q`, () => undefined);
  const [owner = '', user = ''] = real.accounts;
  const agree = async (expected: Outcome, { status, body }: Answer): Promise<void> => {
    deepEqual(status, expected.status, JSON.stringify(body));
    if (expected.made) expected.made.id = body.id;
    await compare(model, real, model.plugins[0], user);
  };
  const slug = `${real.prefix}-0`;
  await agree(model.create(owner, slug), await real.client(owner).post('/plugins', { slug, displayName: slug }));
  const [plugin] = model.plugins;
  if (!plugin) throw new Error('the model has no plugin');
  const publish = async (semVer: string, name: string) => {
    const of = packages.find((one) => one.name === name);
    if (!of) throw new Error(`no package ${name}`);
    const body = { semVer, files: fileList(of.files) };
    await agree(
      model.publish(owner, plugin, semVer, of),
      await real.client(owner).post(`/plugins/${plugin.id}/versions`, body),
    );
  };
  await publish('0.9.0', 'plain');
  await agree(model.list(owner, plugin), await real.client(owner).post(`/plugins/${plugin.id}/listing`));
  await agree(model.install(user, plugin, 'Latest'), await real.client(user).post('/installations', { slug }));
  const [one] = model.installations;
  if (!one) throw new Error('the model has no installation');
  const post = (path: string, body?: object) => real.client(user).post(`/installations/${one.id}/${path}`, body);
  const accept = async () => {
    const { pending } = one;
    const expected = model.accept(user, one, pending ?? undefined);
    await agree(expected, await post('accept-update', { versionId: pending?.id }));
  };
  const configure = async (given: Configuration) =>
    agree(model.configure(user, one, given), await post('configure', given));

  await agree(model.setPaused(user, one, true), await post('pause'));
  await publish('1.0.0', 'writer');
  await accept();
  await publish('1.2.0', 'writer');
  await agree(model.setPaused(user, one, false), await post('resume'));
  deepEqual([one.current.semVer, one.pending], ['1.2.0', null]);

  await publish('1.10.0', 'asking');
  await accept();
  await publish('2.0.0', 'picky');
  await configure({ settings: { city: 'bern' }, secrets: { apiKey: 'k' } });
  deepEqual([one.current.semVer, one.pending?.semVer], ['1.10.0', '2.0.0'], 'the city is not one of its cities');
  await configure({ settings: { city: 'rome' }, secrets: {} });
  deepEqual([one.current.semVer, one.pending], ['2.0.0', null]);
});

/** The events of every installation of a run, in order. */
async function told(model: Model) {
  const { rows } = await api.pool.query(
    `SELECT e.installation_id AS id, e.type, e.data - 'fromVersionId' - 'toVersionId' AS data FROM events e
      WHERE e.installation_id = ANY ($1) AND e.state <> 'skipped' ORDER BY e.installation_id, e.id`,
    [model.installations.map(({ id }) => id)],
  );
  return rows;
}

function expectedEvents(model: Model) {
  const byId = model.installations.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return byId.flatMap(({ id, events }) => events.map((event) => ({ id, ...event })));
}
