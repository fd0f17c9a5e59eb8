/** The supervisor is killed while updates are blocked at each of their steps. The next one brings each to its true end. */
import t from 'tap';
import { completeUpdate } from '../../db/installations/updates.ts';
import { startQueues } from '../../db/jobs/queues.ts';
import { eventually } from '../runner/eventually.ts';
import type { Installed } from '../supervisor/supervisor-fixture.ts';
import { startStormFixture } from './storm-fixture.ts';

const code = (semVer: string, more = '') => `middleware.systemPrompt = () => '${semVer}';
  events.pluginUpdated = () => undefined;
  ${more}`;
/** Each step holds up an installation of its own, in this order. */
const STEPS = ['update.started', 'update.recorded', 'update.failed'] as const;

t.test('an update is complete or has failed, wherever the supervisor was killed', async (t) => {
  const { start, storage } = await startStormFixture(t);
  const { pool } = storage;
  const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
  t.teardown(() => queues.stop());
  const show = async ({ installationId }: Installed) =>
    (
      await pool.query(
        `SELECT c.semver AS current, i.target_version_id AS target, i.failed_reason AS failed, i.status,
                array(SELECT e.semver FROM events e WHERE e.installation_id = i.id AND e.type = 'pluginUpdated') AS told
           FROM installations i JOIN versions c ON c.id = i.current_version_id WHERE i.id = $1`,
        [installationId],
      )
    ).rows[0];
  const supervisor = await start('supervisor', STEPS.map((step) => `${step}:1`).join());
  const made = new Map<string, Installed>();
  for (const step of STEPS) {
    const installed = await storage.install({ slug: step.replace('.', '-'), code: code('1.0.0') });
    const more = step === 'update.failed' ? `throw new Error('no start');` : '';
    const registrations = (await pool.query('SELECT registrations FROM versions WHERE id = $1', [installed.versionId]))
      .rows[0].registrations;
    made.set(step, installed);
    await storage.beginUpdate(installed, { semVer: '2.0.0', code: code('2.0.0', more), registrations }, queues);
    await supervisor.stoppedAt([step]);
  }
  await supervisor.end('SIGKILL');
  const of = (step: (typeof STEPS)[number]): Installed => made.get(step) as Installed;
  const unfinished = { current: '1.0.0', failed: null, told: [] };
  t.match(await show(of('update.started')), unfinished, 'what has only started is not current');
  t.match(await show(of('update.recorded')), { current: '2.0.0', target: null, told: ['2.0.0'] });
  t.match(await show(of('update.failed')), unfinished);

  const next = await start('supervisor');
  await eventually(async () => (await show(of('update.started'))).current === '2.0.0');
  await eventually(async () => (await show(of('update.failed'))).failed !== null);
  t.match(await show(of('update.started')), { target: null, status: 'ready', told: ['2.0.0'] });
  t.match(await show(of('update.recorded')), { current: '2.0.0', target: null, status: 'ready', told: ['2.0.0'] });
  t.match(await show(of('update.failed')), { current: '1.0.0', target: null, failed: /no start/, told: [] });
  const late = { installationId: of('update.started').installationId, versionId: of('update.started').versionId };
  t.equal(await completeUpdate(pool, queues, late), null, 'a supervisor that comes late changes nothing');
  t.equal(await next.end('SIGTERM'), 0);
});
