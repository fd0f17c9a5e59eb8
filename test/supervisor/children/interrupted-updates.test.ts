/** Updates to a version whose process ends, while it starts, as if it were killed from outside. */
import t from 'tap';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { ChildError } from '../../../supervisor/children/child-errors.ts';
import { InstallationRunner, type RunnerDeps } from '../../../supervisor/children/installation-runner.ts';
import { INTERRUPTIONS_MAX } from '../../../supervisor/children/restart-policy.ts';

const TEN_MINUTES_MS = 600_000;

t.test('a start that is killed from outside is tried again so often in ten minutes, and then fails', async (t) => {
  let now = 0;
  const deps = {
    outputBytesPerSecond: 1,
    now: () => now,
    startInTurn: () => Promise.reject(new ChildError('dead', 'it was ended by SIGKILL', { interrupted: true })),
    onChange: () => undefined,
    logs: { system: () => undefined },
    metrics: { childRestarted: () => undefined },
  } as unknown as RunnerDeps;
  const plugin = { installationId: 'i1', status: 'ready', registrations: { hooks: [] } } as unknown as InstalledPlugin;
  const runner = new InstallationRunner(deps, plugin);
  const update = async () => (await runner.moveTo(plugin, async () => null)).kind;
  for (let kill = 1; kill <= INTERRUPTIONS_MAX; kill += 1) t.equal(await update(), 'postponed');
  t.equal(await update(), 'failed');
  now = TEN_MINUTES_MS;
  t.equal(await update(), 'postponed');
});
