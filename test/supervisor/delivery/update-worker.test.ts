/** Updates that begin while another one of the installation is carried out. The database and the fleet are fakes. */
import t from 'tap';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import type { OwnedWork } from '../../../supervisor/cluster/ownership.ts';
import { updateInstallation } from '../../../supervisor/delivery/update-worker.ts';
import { registerHooks } from '../../fixtures/registrations.ts';

const makeRow = (versionId: string) => ({
  installationId: 'i1',
  accountId: 'a1',
  versionId,
  semVer: null,
  status: 'ready',
  blockedReason: null,
  secretNames: [],
  manifest: { settings: {}, secrets: {} },
  given: {},
  registrations: registerHooks(),
});

t.test('an update that replaces the one under way follows at once, whichever supervisor fetched its job', async (t) => {
  let target: string | null = 'v2';
  const query = async (sql: string) => {
    const versionId = sql.includes('v.id = i.target_version_id') ? target : 'v1';
    return { rows: versionId === null ? [] : [makeRow(versionId)] };
  };
  const started: string[] = [];
  const work = { fence: { shard: 0, epoch: 1 } } as OwnedWork;
  const update = async (_plugin: InstalledPlugin, { versionId }: InstalledPlugin) => {
    started.push(versionId);
    if (versionId === 'v2') {
      // Its author saves again, and another supervisor hands the job over.
      target = 'v3';
      await updateInstallation(deps, 'i1', work);
      return { kind: 'dropped' };
    }
    target = null;
    return { kind: 'moved' };
  };
  const deps = {
    pool: { query },
    fleet: { update },
    updating: new Map<string, boolean>(),
  } as unknown as Parameters<typeof updateInstallation>[0];
  await updateInstallation(deps, 'i1', work);
  t.same(started, ['v2', 'v3']);
  t.equal(deps.updating.size, 0);
});
