/**
 * The service against the reference model: random steps of three accounts, compared after each.
 *
 * A failure prints seed and path, and the shortest steps that still fail.
 */
import { deepEqual } from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { amount, seed } from '../runner/soak.ts';
import { brokenInvariants } from './invariants.ts';
import { openReality, type Reality } from './reality.ts';
import { Model } from './reference.ts';
import { startCachedApi } from './service.ts';
import { steps } from './steps.ts';

const WANTED = amount({ quick: 240, soak: 50_000 });
/** A long run goes on until each kind of step has succeeded, at most so far. */
const MOST = amount({ quick: WANTED, soak: 5 * WANTED });
/** Steps of one run at most: long enough for several versions, followers and drafts of a plugin. */
const RUN_MAX = 150;
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
