/** SIGKILL of a supervisor: no answered message is lost, no process is left, and events are redelivered with the same id. */
import { readdir, readFile } from 'node:fs/promises';
import t from 'tap';
import { recordEvent } from '../../../db/installations/events.ts';
import { readStorageValue } from '../../../db/installations/plugin-storage.ts';
import { startQueues } from '../../../db/jobs/queues.ts';
import { eventually } from '../../runner/eventually.ts';
import { type Installed, isAlive, openStorageFixture } from '../supervisor-fixture.ts';
import { startProcess } from '../supervisor-process.ts';

const storage = await openStorageFixture(t);
/** Within the first check after start-up, before the next one, which comes after 15 s. Milliseconds. */
const AT_ONCE_MS = 14_500;

const RECORDER = `
async function note(event) {
  const seen = (await host.storage.get('seen')) ?? [];
  await host.storage.set('seen', [...seen, { id: event.id, attempt: event.attempt, type: event.type }]);
  return seen.length;
}
events.pluginInstalled = async (event) => { if ((await note(event)) === 0) await new Promise(() => {}); };
events.pluginUninstalled = async (event) => {
  if (event.attempt === 1) await new Promise(() => {});
  throw new Error('never done');
};
`;

async function record(made: Installed, type: 'pluginInstalled' | 'pluginUninstalled'): Promise<string> {
  const queues = await startQueues({ pool: storage.pool, role: 'producer', onError: () => undefined });
  const { installationId, accountId, pluginId, versionId } = made;
  const base = { installationId, accountId, pluginId, versionId, semVer: '1.0.0' };
  const id =
    type === 'pluginInstalled'
      ? await recordEvent(storage.pool, queues, { ...base, type, data: { reason: 'install' } })
      : await recordEvent(storage.pool, queues, { ...base, type, data: { by: 'user' } });
  if (type === 'pluginUninstalled') await queues.send(storage.pool, 'uninstall', { installationId });
  await queues.stop();
  return id;
}

/** All processes below one, by id. */
async function descendants(of: number): Promise<number[]> {
  const parents = new Map<number, number>();
  for (const pid of await readdir('/proc')) {
    const stat = /^\d+$/.test(pid) ? await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '') : '';
    const parent = /\) \S (\d+)/.exec(stat)?.[1];
    if (parent !== undefined) parents.set(Number(pid), Number(parent));
  }
  const below = (pid: number): number[] =>
    [...parents].filter(([, parent]) => parent === pid).flatMap(([child]) => [child, ...below(child)]);
  return below(of);
}

const recorder = await storage.install({ slug: 'recorder', code: RECORDER, capabilities: ['host.storage'] });
const leaving = await storage.install({
  slug: 'leaving-recorder',
  code: RECORDER,
  capabilities: ['host.storage'],
  secrets: { key: 'x' },
});
// Before a supervisor runs: it removes an installation that is being uninstalled and has no event.
await storage.pool.query(`UPDATE installations SET status = 'uninstalling' WHERE id = $1`, [leaving.installationId]);
const uninstallId = await record(leaving, 'pluginUninstalled');
const killed = await startProcess(t, storage);
const installId = await record(recorder, 'pluginInstalled');
const readSeen = async () =>
  JSON.parse((await readStorageValue(storage.pool, recorder.installationId, 'seen')) ?? '[]') as object[];
const readEvent = async (id: string) => (await storage.pool.query('SELECT * FROM events WHERE id = $1', [id])).rows[0];
await eventually(async () => (await readSeen()).length === 1);
await eventually(async () => (await readEvent(uninstallId)).attempts >= 1);
const children = await descendants(killed.process.pid ?? 0);
await killed.kill();
/** All tests look at it. */
const supervisor = await startProcess(t, storage);
const restarted = Date.now();

t.test('an event whose attempt was killed is delivered again at once, with the same id', async (t) => {
  t.ok(children.length >= 3, 'the children of the plugins and a spare');
  await eventually(async () => (await readSeen()).length === 2);
  t.ok(Date.now() - restarted < AT_ONCE_MS, `redelivered after ${Date.now() - restarted} ms`);
  // The next supervisor ends a jail that was half built when the first was killed.
  await eventually(async () => (await Promise.all(children.map(isAlive))).every((alive) => !alive));
  t.same(await readSeen(), [
    { id: installId, attempt: 1, type: 'pluginInstalled' },
    { id: installId, attempt: 2, type: 'pluginInstalled' },
  ]);
  await eventually(async () => (await readEvent(installId)).state === 'delivered');
  t.match(await readEvent(installId), { attempts: 2 });
});

t.test('an uninstall begun before a kill is finished after it', async (t) => {
  await eventually(async () => (await readEvent(uninstallId)).state === 'dead');
  // The interrupted attempt is repeated.
  t.match(await readEvent(uninstallId), { attempts: 4, interruptions: 1, last_error: /never done/ });
  await eventually(async () => {
    const { rows } = await storage.pool.query('SELECT 1 FROM installations WHERE id = $1', [leaving.installationId]);
    return rows.length === 0;
  });
  const { rows } = await storage.pool.query('SELECT 1 FROM installation_secrets WHERE installation_id = $1', [
    leaving.installationId,
  ]);
  t.equal(rows.length, 0, 'the secrets went with it');
});

t.test('the port for operators', async (t) => {
  const health = await (await fetch(`${supervisor.opsUrl}/healthz`)).json();
  t.match(health, { status: 'ok', sandbox: { state: storage.sandbox.state } });
  t.equal((await fetch(`${supervisor.opsUrl}/readyz`)).status, 200);
  await eventually(async () => {
    const metrics = await (await fetch(`${supervisor.opsUrl}/metrics`)).text();
    return /bulkhead_children\{state="spare"\} 1/.test(metrics);
  });
});

t.test('SIGTERM ends it cleanly', async (t) => {
  t.equal(await supervisor.stop(), 0);
});
