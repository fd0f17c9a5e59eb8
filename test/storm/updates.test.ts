/**
 * Updates to good, throwing, hanging, leaking and crash-looping versions, while hooks are called and events recorded. At every
 * sample, what the API calls current is what answers; `pluginUpdated` reaches the versions that became current, and no
 * others; and a call fails only where the current version is the one that crashes.
 */
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { type Client, startApiFixture } from '../api/api-fixture.ts';
import { eventually } from '../runner/eventually.ts';
import { amount } from '../runner/soak.ts';
import {
  type Installed,
  type PluginSource,
  type SupervisorFixture,
  startSupervisorFixture,
} from '../supervisor/supervisor-fixture.ts';

const UPDATES = amount({ quick: 5, soak: 200 });
const INSTALLATIONS = amount({ quick: 5, soak: 8 });
const KINDS = ['good', 'throwing', 'hanging', 'leaking', 'crash-looping'] as const;
type Kind = (typeof KINDS)[number];
/** An update ends within this time on a machine that others use too, milliseconds. */
const UPDATE_MS = 300_000;
/** An event whose attempts were hit by several crashes waits for its retries, milliseconds. */
const DELIVERY_MS = 120_000;
/** Each installation is sampled this often, which keeps a core busy. Milliseconds. */
const SAMPLE_EVERY_MS = amount({ quick: 50, soak: 10 });
const SAMPLES_PER_SESSION = 10;

/** Actions that a version performs only with its real grants, so that every kind can be published. */
const DEEDS: Readonly<Record<Kind, string>> = {
  good: '',
  throwing: `throw new Error('it does not like its grants');`,
  hanging: 'setTimeout(() => { for (;;); }, 0);',
  leaking: 'leak();',
  'crash-looping': 'setTimeout(leak, 300);',
};
const versionOf = (kind: Kind, semVer: string): PluginSource => ({
  semVer,
  capabilities: ['host.storage'],
  code: `const leak = () => { const all = []; for (;;) all.push(new Array(1e6).fill(all.length)); };
    middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' ${semVer}';
    events.sessionStarted = (event) => host.storage.set('session ' + event.data.sessionId, '${semVer}');
    events.pluginUpdated = async ({ data }) => {
      const told = (await host.storage.get('told')) ?? [];
      await host.storage.set('told', [...told, { to: data.toSemVer, by: '${semVer}' }]);
    };
    if (typeof host !== 'undefined' && host.storage) { ${DEEDS[kind]} }`,
});

interface Figures {
  samples: number;
  /** Calls that a crash-looping version failed to answer while it was current. */
  unanswered: number;
  slowestMs: number;
  sessions: number;
  readonly faults: string[];
}

/** One installation with its user, its updates and what was seen of it. */
interface Case {
  readonly fixture: SupervisorFixture;
  readonly made: Installed;
  readonly user: Client;
  readonly kinds: Map<string, Kind>;
}

/** A version that hangs keeps a core busy until it is killed. Milliseconds. */
const HEALTH_WITHIN_MS = amount({ quick: 2_000, soak: 5_000 });
const shared = await startSupervisorFixture(t, {
  healthWithinMs: HEALTH_WITHIN_MS,
  sessionApi: { accountLimits: { reads: 1_000_000, writes: 1_000_000 } },
});
const api = await startApiFixture(t, { beside: shared });
// The truth about what became current, from the row itself.
await shared.pool.query(`
  CREATE TABLE moves (installation_id text, version_id text);
  CREATE FUNCTION record_move() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO moves VALUES (NEW.id, NEW.current_version_id); RETURN NULL; END $$;
  CREATE TRIGGER moved AFTER UPDATE OF current_version_id ON installations FOR EACH ROW
    WHEN (OLD.current_version_id IS DISTINCT FROM NEW.current_version_id) EXECUTE FUNCTION record_move();`);

async function openCase(): Promise<Case> {
  const fixture = shared.withNewAccount();
  const made = await fixture.install(versionOf('good', '1.0.0'));
  return { fixture, made, user: await api.user(fixture.account), kinds: new Map([['1.0.0', 'good']]) };
}
const show = async ({ user, made }: Case) => (await user.get(`/installations/${made.installationId}`)).body;

/** Waits until it answers: a first start on a busy machine takes its time. */
async function warmUp({ fixture }: Case): Promise<void> {
  const session = await fixture.session();
  const context = { systemPrompt: 'v', model: 'm' };
  await eventually(async () => {
    const { body } = await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context });
    return body.context.systemPrompt === 'v 1.0.0';
  }, UPDATE_MS);
}

/** Updates to one version after another. @returns when the last one is over */
async function update(one: Case, kinds: readonly Kind[]): Promise<void> {
  let stable = '1.0.0';
  for (const [index, kind] of kinds.entries()) {
    const semVer = `${index + 2}.0.0`;
    one.kinds.set(semVer, kind);
    await one.fixture.beginUpdate(one.made, versionOf(kind, semVer), one.fixture.supervisor.queues);
    if (kind === 'good') stable = semVer;
    await eventually(async () => {
      const { currentSemVer, updateUnderWay, failedUpdate } = await show(one);
      // A machine that others use too may take longer than a load has time.
      if (kind === 'good' && failedUpdate)
        await one.user.post(`/installations/${one.made.installationId}/retry-update`);
      const isTried = kind === 'good' || failedUpdate?.semVer === semVer;
      return isTried && updateUnderWay === null && currentSemVer === stable;
    }, UPDATE_MS).catch(async () => {
      throw new Error(`${kind} ${semVer} did not end: ${JSON.stringify(await show(one))}`);
    });
  }
}

/** Calls the hook and compares the answer with the API, until the updates are over. */
async function sample(one: Case, figures: Figures, isOver: () => boolean): Promise<void> {
  const { fixture, kinds } = one;
  let session = await fixture.session();
  const context = { systemPrompt: 'v', model: 'm' };
  for (let count = 1; !isOver(); count += 1) {
    const before = (await show(one)).currentSemVer;
    const startedAt = performance.now();
    const { body } = await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context });
    const ms = performance.now() - startedAt;
    const after = (await show(one)).currentSemVer;
    const mayFail = kinds.get(before) === 'crash-looping' || kinds.get(after) === 'crash-looping';
    const { outcome, reason } = body.trace?.[0] ?? {};
    figures.samples += 1;
    if (outcome !== 'changed' && mayFail) figures.unanswered += 1;
    else if (outcome !== 'changed') figures.faults.push(`between ${before} and ${after}: ${outcome} ${reason}`);
    else if (![`v ${before}`, `v ${after}`].includes(body.context.systemPrompt))
      figures.faults.push(`${body.context.systemPrompt} answered between ${before} and ${after}`);
    if (!mayFail) figures.slowestMs = Math.max(figures.slowestMs, ms);
    if (count % SAMPLES_PER_SESSION === 0) {
      session = await fixture.session();
      figures.sessions += 1;
    }
    await pause(SAMPLE_EVERY_MS);
  }
}

const semVers = async ({ fixture, made }: Case, sql: string): Promise<string[]> =>
  (await fixture.pool.query(sql, [made.installationId])).rows.map(({ semver }) => semver);

/** The plugin's records of its received events. */
async function readTold({ fixture, made }: Case): Promise<{ to: string; by: string }[]> {
  const { rows } = await fixture.pool.query(
    `SELECT value FROM installation_storage WHERE installation_id = $1 AND key = 'told'`,
    [made.installationId],
  );
  return JSON.parse(rows[0]?.value ?? '[]');
}

t.test(`${UPDATES} updates under load`, async (t) => {
  const figures: Figures = { samples: 0, unanswered: 0, slowestMs: 0, sessions: 0, faults: [] };
  const cases = await Promise.all(Array.from({ length: INSTALLATIONS }, openCase));
  await Promise.all(cases.map(warmUp));
  const startedAt = performance.now();
  await Promise.all(
    cases.map(async (one, index) => {
      const count = Math.ceil((UPDATES - index) / INSTALLATIONS);
      const kinds = Array.from({ length: count }, (_, at) => KINDS[(index + at) % KINDS.length] as Kind);
      let isOver = false;
      const sampling = sample(one, figures, () => isOver);
      await update(one, kinds).finally(() => {
        isOver = true;
      });
      await sampling;
    }),
  );
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  t.same(figures.faults, [], 'each call was answered by what was current');
  const began = cases.reduce((sum, { kinds }) => sum + kinds.size - 1, 0);
  t.equal(began, UPDATES);
  const pending = `SELECT 1 FROM events WHERE state = 'pending'`;
  await eventually(async () => (await shared.pool.query(pending)).rowCount === 0, DELIVERY_MS);
  let moves = 0;
  let reached = 0;
  for (const one of cases) {
    const moved = await semVers(
      one,
      'SELECT v.semver FROM moves m JOIN versions v ON v.id = m.version_id WHERE m.installation_id = $1',
    );
    const delivered = await semVers(
      one,
      `SELECT semver FROM events WHERE installation_id = $1 AND type = 'pluginUpdated' AND state = 'delivered'`,
    );
    const versions = await readTold(one);
    moves += moved.length;
    reached += versions.length;
    t.same(
      versions.filter(({ to, by }) => to !== by || !moved.includes(by)),
      [],
      'only what became current heard of it, each of itself',
    );
    t.same(
      delivered.filter((semVer) => !versions.some(({ by }) => by === semVer)),
      [],
      'and what was delivered was heard',
    );
    const good = [...one.kinds].filter(([semVer, kind]) => kind === 'good' && semVer !== '1.0.0');
    t.same(
      good.filter(([semVer]) => !versions.some(({ by }) => by === semVer)),
      [],
      'every good version became current and heard of it',
    );
    const bad = moved.filter((semVer) => !['good', 'crash-looping'].includes(one.kinds.get(semVer) ?? ''));
    t.same(bad, [], 'nothing that throws, hangs or leaks at its start became current');
  }
  const { rows } = await shared.pool.query(
    `SELECT count(*)::int AS count FROM events WHERE type = 'sessionStarted' AND state <> 'delivered'`,
  );
  t.equal(rows[0].count, 0, 'every session event was delivered');
  t.comment(
    `${began} updates in ${seconds} s: ${moves} moves, pluginUpdated heard ${reached} times; ${figures.samples} samples, ` +
      `${figures.unanswered} unanswered by a crashing version, slowest answer ${Math.round(figures.slowestMs)} ms; ` +
      `${figures.sessions} session events`,
  );
});
