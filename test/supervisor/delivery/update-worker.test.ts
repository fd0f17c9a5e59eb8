/** Jobs that arrive while another one of the installation is worked on: updates and events. The database and the fleet are fakes. */
import t from 'tap';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import type { Statement } from '../../../db/postgres/rows.ts';
import type { OwnedWork } from '../../../supervisor/cluster/ownership.ts';
import { deliverEvents } from '../../../supervisor/delivery/event-delivery.ts';
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

/** Delivers events of an installation that is gone, in jobs that end after one claim. `claim` returns the rows of a claim. */
function createDelivery(claim: () => Promise<readonly object[]>) {
  const work = { fence: { shard: 0, epoch: 1 }, isLeaving: () => true } as OwnedWork;
  const deliver = () => deliverEvents(deps, 'i1', work);
  const deps = {
    pool: {
      query: async (statement: Statement) => ({
        rows: JSON.stringify(statement).includes('attempts = attempts + 1') ? await claim() : [],
      }),
    },
    queues: { send: deliver },
    writes: { write: (work: () => Promise<void>) => work() },
    faultPoint: () => undefined,
    delivering: new Map<string, boolean>(),
  } as unknown as Parameters<typeof deliverEvents>[0];
  return deliver;
}

t.test('an event whose job arrives during the last, empty claim is claimed at once', async (t) => {
  let claims = 0;
  const deliver = createDelivery(async () => {
    claims += 1;
    if (claims === 1) await deliver();
    return [];
  });
  await deliver();
  t.equal(claims, 2);
});

t.test('the job for the remaining events of an installation delivers them although it begins at once', async (t) => {
  const left = ['e1', 'e2'];
  const deliver = createDelivery(async () =>
    left.splice(0, 1).map((id) => ({ id, accountId: 'a1', type: 'sessionStarted', attempt: 1, interruptions: 0 })),
  );
  await deliver();
  t.same(left, []);
});
