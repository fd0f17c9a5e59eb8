/** Updates are transactions: what the API calls current is what answers, whatever the new version does. */
import t from 'tap';
import { saveSecret } from '../../../db/files/secrets.ts';
import { ROLLBACK_EXITS } from '../../../supervisor/children/fleet-bounds.ts';
import { INTERRUPTIONS_MAX } from '../../../supervisor/children/restart-policy.ts';
import { startApiFixture } from '../../api/api-fixture.ts';
import { eventually } from '../../runner/eventually.ts';
import { listCases, soakTest } from '../../runner/soak.ts';
import {
  EXHAUST_MEMORY,
  type Installed,
  type PluginSource,
  type SupervisorFixture,
  startSupervisorFixture,
} from '../supervisor-fixture.ts';

/** Past every backoff of the first exits, and far from the end of the first ten minutes. */
const AFTER_BACKOFF_MS = 10_000;
let passedMs = 0;
/** A version that hangs keeps a core busy until it is killed. Milliseconds. */
const HEALTH_WITHIN_MS = 500;
const shared = await startSupervisorFixture(t, {
  now: () => Date.now() + passedMs,
  healthWithinMs: HEALTH_WITHIN_MS,
});
const api = await startApiFixture(t, { beside: shared });
const context = { systemPrompt: 'a', model: 'm' };

const nothing = { commands: [], skills: [], middleware: [], lifecycle: [], tools: [], providers: [], channel: null };
const answering = (semVer: string, more = ''): PluginSource => ({
  semVer,
  // The author's page reads it.
  discovered: nothing,
  code: `middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' ${semVer}';
    events.pluginUpdated = (event) => host.log('updated ' + event.data.fromSemVer + ' > ' + event.data.toSemVer);
    ${more}`,
});
/** It publishes, because only a real start has the grant. */
const throwing = (semVer: string): PluginSource => ({
  ...answering(semVer, `if (host.storage) throw new Error('no start with ' + Object.keys(host.storage).length);`),
  capabilities: ['host.storage'],
});

async function openCase(first = answering('1.0.0')) {
  const fixture = shared.withNewAccount();
  const made = await fixture.install(first);
  const user = await api.user(fixture.account);
  const path = `/installations/${made.installationId}`;
  const session = await fixture.session();
  return {
    fixture,
    made,
    user,
    path,
    get: async () => (await user.get(path)).body,
    begin: (source: PluginSource) => fixture.beginUpdate(made, source, fixture.supervisor.queues),
    call: async () => (await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context })).body,
    ended: () => eventually(async () => (await user.get(path)).body.updateUnderWay === null),
  };
}

type Case = Awaited<ReturnType<typeof openCase>>;

async function listLines({ supervisor, pool }: SupervisorFixture, { installationId }: Installed): Promise<string[]> {
  await supervisor.logs.flush();
  const { rows } = await pool.query('SELECT message FROM plugin_logs WHERE installation_id = $1 ORDER BY id', [
    installationId,
  ]);
  return rows.map(({ message }) => message);
}
const listEvents = async ({ pool }: SupervisorFixture, { installationId }: Installed) =>
  (await pool.query('SELECT state, semver, data FROM events WHERE installation_id = $1 ORDER BY id', [installationId]))
    .rows;

t.test('a version that throws with its real grants leaves the old one current and answering', async (t) => {
  const { fixture, made, user, path, get, begin, call, ended } = await openCase();
  t.equal((await call()).context.systemPrompt, 'a 1.0.0');
  const versionId = await begin(throwing('2.0.0'));
  await ended();
  const failed = await get();
  t.match(failed, {
    status: 'ready',
    currentSemVer: '1.0.0',
    grantedCapabilities: ['events.pluginUpdated', 'middleware.systemPrompt'],
    failedUpdate: { versionId, semVer: '2.0.0', reason: /no start with 4/, rolledBack: false },
    statusReason: /^2\.0\.0 did not start: .*no start with 4.* 1\.0\.0 keeps running\. Try the update again/,
  });
  t.equal((await call()).context.systemPrompt, 'a 1.0.0');
  t.same(await listEvents(fixture, made), [], 'no event moves');
  await user.post(`${path}/pause`);
  await user.post(`${path}/resume`);
  // The supervisor learns of it a moment later, and a busy machine starts the child in more than one call's time.
  await eventually(async () => (await call()).context.systemPrompt === 'a 1.0.0');
  t.equal((await user.post(`${path}/retry-update`)).status, 200);
  // The API waits a few seconds for it.
  await ended();
  t.match(await get(), { currentSemVer: '1.0.0', failedUpdate: { versionId } });
  t.ok((await listLines(fixture, made)).some((line) => /^2\.0\.0 does not start: .*no start/.test(line)));
  await begin(answering('3.0.0'));
  await eventually(async () => (await get()).currentSemVer === '3.0.0');
  t.match(await get(), { failedUpdate: null, statusReason: null, updateUnderWay: null });
  t.equal((await call()).context.systemPrompt, 'a 3.0.0');
  t.equal((await user.post(`${path}/retry-update`)).body.code, 'not_pending', 'nothing is left to try');
  await eventually(async () => (await listLines(fixture, made)).includes('updated 1.0.0 > 3.0.0'));
  t.match(await listEvents(fixture, made), [{ semver: '3.0.0', data: { fromSemVer: '1.0.0', toSemVer: '3.0.0' } }]);
});

t.test('an author who waits for a saved draft is told why it does not start', async (t) => {
  const { fixture, made, begin } = await openCase();
  await fixture.pool.query(`UPDATE installations SET version_policy = 'Draft' WHERE id = $1`, [made.installationId]);
  await begin(throwing('2.0.0'));
  const path = `/installations/${made.installationId}/wake`;
  t.match(await fixture.call('POST', path), { status: 409, body: { code: 'not_running', detail: /no start with 4/ } });
  const saved = await begin(answering('3.0.0'));
  t.match(await fixture.call('POST', path), { status: 200, body: { versionId: saved } });
});

t.test('a version that loads and then blocks does not become current', async (t) => {
  const { get, begin, call, ended } = await openCase();
  await begin({
    ...answering('2.0.0', `if (host.storage) setTimeout(() => { for (;;); }, 0);`),
    capabilities: ['host.storage'],
  });
  await ended();
  t.match(await get(), {
    currentSemVer: '1.0.0',
    failedUpdate: { reason: new RegExp(`health check took longer than its ${HEALTH_WITHIN_MS} ms`) },
  });
  t.equal((await call()).context.systemPrompt, 'a 1.0.0');
});

t.test('calls go on during an update, and each is answered by what is current', async (t) => {
  const { get, begin, call } = await openCase();
  let done = false;
  const seen = new Set<string>();
  const load = (async () => {
    while (!done) {
      const before = (await get()).currentSemVer;
      const { context: answered, trace } = await call();
      const after = (await get()).currentSemVer;
      if (trace[0].outcome !== 'changed') t.fail(JSON.stringify(trace));
      // On a busy machine, more than one update may have been between the two.
      if (answered.systemPrompt < `a ${before}` || answered.systemPrompt > `a ${after}`)
        t.fail(`${answered.systemPrompt} between ${before} and ${after}`);
      seen.add(answered.systemPrompt);
    }
  })();
  for (const semVer of ['2.0.0', '3.0.0', '4.0.0']) {
    await begin(answering(semVer));
    await eventually(async () => (await get()).currentSemVer === semVer);
  }
  done = true;
  await load;
  t.ok(seen.size > 1, `answered: ${[...seen].join(', ')}`);
});

/** A tool that works until it may not write any more, and then returns what it can still do. */
const WORKING = `tools.slow = { description: 'Works for long', parameters: {}, handler: async () => {
  const reasonOf = (error) => error.message;
  for (let left = 450; ; left -= 1) {
    const written = await host.workspace.write('notes', 'x').then(() => 'written', reasonOf);
    host.log('working');
    if (left === 0 || written !== 'written') {
      const read = await host.workspace.readText('notes').catch(reasonOf);
      const secret = await host.secrets.get('key').catch(reasonOf);
      return JSON.stringify({ written, read, secret });
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
} };`;
const secrets = { key: 'sesame-of-the-user' };
const full: Partial<PluginSource> = { capabilities: ['host.workspace', 'secrets.key'], secrets };
const nothingLeft = {
  written: 'host.workspace.write is not granted',
  read: 'host.workspace.readText is not granted',
  secret: /^host\.secrets\.get: the secret key is not granted any more/,
};

const reductions: Record<string, { takeAway: (opened: Case) => Promise<unknown>; left: object }> = {
  'its user pins a version with less': {
    takeAway: async ({ user, path, made }) => {
      const change = { versionPolicy: 'Pinned', pinnedVersionId: made.versionId };
      const { body } = await user.patch(path, change);
      t.match(body, { currentSemVer: '1.0.0' });
      t.notOk(body.grantedCapabilities.includes('host.workspace'));
    },
    left: nothingLeft,
  },
  'an update needs less': {
    takeAway: ({ begin }) => begin(answering('1.2.0', WORKING)),
    left: nothingLeft,
  },
  'the second of two updates needs less': {
    takeAway: async ({ begin, get }) => {
      await begin({ ...answering('1.2.0', WORKING), ...full });
      await eventually(async () => (await get()).currentSemVer === '1.2.0');
      await begin(answering('1.3.0', WORKING));
    },
    left: nothingLeft,
  },
  'its user pauses it': { takeAway: ({ user, path }) => user.post(`${path}/pause`), left: nothingLeft },
  'an update only reads': {
    takeAway: ({ begin }) =>
      begin({
        ...answering('1.2.0', WORKING),
        capabilities: ['host.workspace:read', 'secrets.key:webhooks'],
        secretUses: { key: ['webhooks'] },
      }),
    left: { ...nothingLeft, read: 'x' },
  },
};

for (const [name, { takeAway, left }] of listCases(reductions, 'an update needs less'))
  t.test(`a running call goes on without the access that was taken away: ${name}`, async (t) => {
    const opened = await openCase(answering('1.0.0', WORKING));
    const { fixture, made, begin, get } = opened;
    await saveSecret(fixture.pool, fixture.keys, made.installationId, 'key', secrets.key);
    await begin({ ...answering('1.1.0', WORKING), ...full });
    await eventually(async () => (await get()).currentSemVer === '1.1.0');
    const path = `/sessions/${await fixture.session()}/tools/${made.slug}__slow`;
    const called = fixture.call('POST', path, { arguments: {} });
    await eventually(async () => (await listLines(fixture, made)).includes('working'));
    await takeAway(opened);
    const { body } = await called;
    t.match(JSON.parse(body.content[0].text), left);
  });

t.test('a paused one is updated when it resumes', async (t) => {
  const { fixture, made, user, path, get, begin, call, ended } = await openCase();
  await user.post(`${path}/pause`);
  await begin(answering('2.0.0'));
  t.match(await get(), { status: 'paused', currentSemVer: '1.0.0', updateUnderWay: { waitsFor: /Resume it/ } });
  t.equal((await user.post(`${path}/resume`)).status, 200);
  await ended();
  t.match(await get(), { status: 'ready', currentSemVer: '2.0.0' });
  t.equal((await call()).context.systemPrompt, 'a 2.0.0');
  await eventually(async () => (await listLines(fixture, made)).includes('updated 1.0.0 > 2.0.0'));
});

soakTest(t, 'one that lacks configuration is updated to a version that needs none', async (t) => {
  const { fixture, made, get, begin, call } = await openCase();
  await fixture.pool.query(`UPDATE installations SET status = 'needs_configuration' WHERE id = $1`, [
    made.installationId,
  ]);
  await fixture.notify(made.installationId);
  await begin(answering('2.0.0'));
  await eventually(async () => (await get()).currentSemVer === '2.0.0');
  t.match(await get(), { status: 'ready', statusReason: null });
  t.equal((await call()).context.systemPrompt, 'a 2.0.0');
});

t.test('undelivered events of updates merge into one to the version that is current', async (t) => {
  const { fixture, made, begin, get } = await openCase();
  const release = await blockEvents(fixture, made);
  for (const semVer of ['2.0.0', '3.0.0']) {
    await begin(answering(semVer));
    await eventually(async () => (await get()).currentSemVer === semVer);
  }
  await release();
  await eventually(async () => (await listLines(fixture, made)).includes('updated 1.0.0 > 3.0.0'));
  const lines = (await listLines(fixture, made)).filter((line) => line.startsWith('updated'));
  t.same(lines, ['updated 1.0.0 > 3.0.0'], 'and 3.0.0 alone is told');
});

/** Holds back what is recorded for an installation. @returns a function that lets it go */
async function blockEvents({ pool, supervisor }: SupervisorFixture, { installationId }: Installed) {
  await pool.query(
    `CREATE OR REPLACE FUNCTION hold_event() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN NEW.next_attempt_at := now() + interval '10 minutes'; NEW.last_error := 'held'; RETURN NEW; END $$`,
  );
  await pool.query(
    `CREATE TRIGGER hold BEFORE INSERT ON events FOR EACH ROW
       WHEN (NEW.installation_id = '${installationId}') EXECUTE FUNCTION hold_event()`,
  );
  return async () => {
    await pool.query('DROP TRIGGER hold ON events');
    const { rows } = await pool.query(
      `UPDATE events SET next_attempt_at = now() WHERE installation_id = $1 AND state = 'pending' RETURNING id`,
      [installationId],
    );
    for (const { id: eventId } of rows) await supervisor.queues.send(pool, 'events', { eventId, installationId });
  };
}

const CRASHING = `middleware.inboundMessage = () => { ${EXHAUST_MEMORY} };`;

/** @returns a function that calls a hook which ends the process, and returns how often it has ended */
async function openCrash(fixture: SupervisorFixture, made: Installed): Promise<() => Promise<number>> {
  const session = await fixture.session();
  const message = { id: 'm', from: 'x', text: 'x', attachments: [] };
  let ended = 0;
  return async () => {
    await fixture.call('POST', `/sessions/${session}/hooks/inboundMessage`, { context: { message } });
    const lines = await listLines(fixture, made);
    const ends = lines.filter((line) => line.startsWith("The plugin's process ended")).length;
    // Only after an end: calls that are refused while it starts again would use up the time of a rollback.
    if (ends > ended) passedMs += AFTER_BACKOFF_MS;
    ended = ends;
    return ends;
  };
}

t.test('a version that crash-loops soon after its update is rolled back, and its author sees it', async (t) => {
  const { fixture, made, user, get, begin, call } = await openCase();
  const crashing = answering('2.0.0', CRASHING);
  const versionId = await begin(crashing);
  await eventually(async () => (await get()).currentSemVer === '2.0.0');
  t.equal((await call()).context.systemPrompt, 'a 2.0.0');
  const crash = await openCrash(fixture, made);
  await eventually(async () => {
    await crash();
    return (await get()).currentSemVer === '1.0.0';
  });
  const rolledBack = await get();
  t.match(rolledBack, {
    status: 'ready',
    failedUpdate: { versionId, semVer: '2.0.0', reason: /ended 3 times soon after the update/, rolledBack: true },
    statusReason: /^2\.0\.0 was rolled back: .* 1\.0\.0 keeps running/,
  });
  t.equal((await call()).context.systemPrompt, 'a 1.0.0');
  const lines = await listLines(fixture, made);
  t.ok(
    lines.some((line) => /^2\.0\.0 returns to the previous version: it ended 3 times/.test(line)),
    lines.join('\n'),
  );
  const { rollbacks } = (await user.get(`/plugins/${made.pluginId}`)).body;
  t.match(rollbacks, [{ versionId, semVer: '2.0.0', count: 1, cause: /memory|killed|crashed/, lastAt: String }]);
});

soakTest(
  t,
  'a crash loop of a version that its user pinned does not bring back the access that the pin took away',
  async (t) => {
    const { fixture, made, user, path, get, begin } = await openCase(answering('1.0.0', CRASHING));
    await begin({ ...answering('2.0.0', CRASHING), capabilities: ['host.storage'] });
    await eventually(async () => (await get()).currentSemVer === '2.0.0');
    const change = { versionPolicy: 'Pinned', pinnedVersionId: made.versionId };
    t.match((await user.patch(path, change)).body, { currentSemVer: '1.0.0' });
    const crash = await openCrash(fixture, made);
    await eventually(async () => {
      await crash();
      return (await get()).status === 'failed' || (await get()).currentSemVer !== '1.0.0';
    });
    t.match(await get(), {
      status: 'failed',
      currentSemVer: '1.0.0',
      grantedCapabilities: ['events.pluginUpdated', 'middleware.inboundMessage', 'middleware.systemPrompt'],
      updateUnderWay: null,
    });
  },
);

soakTest(t, 'the log says why a version that crash-loops does not return to the previous one', async (t) => {
  const { fixture, made, user, path, get, begin } = await openCase();
  const pinnedVersionId = await begin(answering('2.0.0', CRASHING));
  await eventually(async () => (await get()).currentSemVer === '2.0.0');
  await user.patch(path, { versionPolicy: 'Pinned', pinnedVersionId });
  const crash = await openCrash(fixture, made);
  const refused = /^2\.0\.0 does not return to the previous version \(it is pinned\): it ended 3 times/;
  await eventually(async () => {
    await crash();
    return (await listLines(fixture, made)).some((line) => refused.test(line));
  });
  t.match(await get(), { currentSemVer: '2.0.0', updateUnderWay: null });
});

soakTest(t, 'a version whose process is killed from outside again and again is rolled back in the end', async (t) => {
  const { fixture, made, get, begin, call } = await openCase();
  await begin(answering('2.0.0'));
  await eventually(async () => (await get()).currentSemVer === '2.0.0');
  // A process can end itself with the code of a kill.
  const killOnce = async (): Promise<void> => {
    await eventually(async () => (await call()).trace[0].outcome === 'changed');
    const pid = fixture.supervisor.fleet.getPid(made.installationId);
    // With process id 0 the signal would go to this process.
    if (!pid) throw new Error('there is no process to kill');
    process.kill(pid, 'SIGKILL');
    await eventually(async () => fixture.supervisor.fleet.getPid(made.installationId) !== pid);
  };
  for (let kill = 1; kill <= INTERRUPTIONS_MAX; kill += 1) await killOnce();
  t.equal((await get()).currentSemVer, '2.0.0');
  for (let kill = 1; kill <= ROLLBACK_EXITS; kill += 1) {
    await killOnce();
    passedMs += AFTER_BACKOFF_MS;
  }
  await eventually(async () => (await get()).currentSemVer === '1.0.0');
  t.match((await get()).failedUpdate, { semVer: '2.0.0', rolledBack: true, reason: /SIGKILL/ });
});

soakTest(t, 'a rollback to a version that does not start just then is tried again after the next end', async (t) => {
  const { fixture, made, get, begin, call } = await openCase();
  await begin(answering('2.0.0', CRASHING));
  await eventually(async () => (await get()).currentSemVer === '2.0.0');
  const setBundle = async (bundleSha256: string): Promise<string> => {
    const { rows } = await fixture.pool.query(
      `UPDATE versions v SET bundle_sha256 = $2 FROM versions old WHERE v.id = $1 AND old.id = v.id
       RETURNING old.bundle_sha256 AS before`,
      [made.versionId, bundleSha256],
    );
    return rows[0].before;
  };
  const bundleSha256 = await setBundle('0'.repeat(64));
  const crash = await openCrash(fixture, made);
  await eventually(async () => (await crash()) >= 3);
  await eventually(async () =>
    (await listLines(fixture, made)).some((line) => line.startsWith('1.0.0 does not start: ')),
  );
  await eventually(async () => (await get()).updateUnderWay === null);
  t.equal((await get()).currentSemVer, '2.0.0');
  await setBundle(bundleSha256);
  await eventually(async () => {
    await crash();
    return (await get()).currentSemVer === '1.0.0';
  });
  t.equal((await call()).context.systemPrompt, 'a 1.0.0');
});
