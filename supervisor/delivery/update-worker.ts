/** Carries out updates of installations: starts the new version, makes it current, or records why it did not start. */
import { loadInstalledPlugin, loadUpdateTarget } from '../../db/installations/account-plugins.ts';
import { mayUpdate } from '../../db/installations/run-rule.ts';
import {
  completeUpdate,
  failUpdate,
  postponeUpdate,
  recordWaitingUpdate,
  type UpdateKey,
} from '../../db/installations/updates.ts';
import type { FencedPool } from '../../db/postgres/pool.ts';
import type { Fleet } from '../children/fleet.ts';
import type { UpdateOutcome } from '../children/installation-runner.ts';
import type { OwnedWork } from '../cluster/ownership.ts';
import type { SessionServices } from '../sessions/session-services.ts';

/** Delay after an update could not be tried: no room, or a refusal of this machine. Seconds. */
const POSTPONED_S = 5;

interface UpdateDeps extends Pick<SessionServices, 'pool' | 'queues' | 'writes' | 'faultPoint'> {
  readonly fleet: Pick<Fleet, 'update'>;
  /**
   * The installations that this supervisor is updating, by id. True: another job arrived meanwhile, perhaps for an update that the
   * last query did not find yet.
   */
  readonly updating: Map<string, boolean>;
}

type FencedDeps = UpdateDeps & { readonly fenced: FencedPool };

/** Handles one job of the `updates` queue. */
export async function updateInstallation(given: UpdateDeps, installationId: string, work: OwnedWork): Promise<void> {
  const { updating, pool } = given;
  const deps = { ...given, fenced: { pool, fence: work.fence } };
  // The first job also carries out an update that begins meanwhile.
  if (updating.has(installationId)) return void updating.set(installationId, true);
  try {
    let mayFollow: boolean;
    do {
      updating.set(installationId, false);
      mayFollow = await carryOutUpdate(deps, installationId);
    } while (mayFollow || updating.get(installationId) === true);
  } finally {
    updating.delete(installationId);
  }
}

/** @returns whether another update may be under way */
async function carryOutUpdate(deps: FencedDeps, installationId: string): Promise<boolean> {
  const { pool, fenced, queues, faultPoint } = deps;
  const plugin = await loadInstalledPlugin(pool, installationId);
  const target = await loadUpdateTarget(pool, installationId);
  if (!plugin || !target) return false;
  const update = { installationId, versionId: target.plugin.versionId };
  if (target.missing.length > 0) await recordWaitingUpdate(pool, update, target.plugin.updatedAt);
  if (!mayUpdate(target)) return false;
  const outcome = await deps.fleet.update(plugin, target.plugin, async () => {
    await faultPoint('update.started');
    const recorded = await completeUpdate(fenced, queues, update);
    await faultPoint('update.recorded');
    return recorded;
  });
  return concludeUpdate(deps, update, outcome);
}

async function concludeUpdate(
  { pool, fenced, queues, writes, faultPoint }: FencedDeps,
  update: UpdateKey,
  outcome: UpdateOutcome,
): Promise<boolean> {
  if (outcome.kind === 'dropped') return false;
  if (outcome.kind === 'failed') {
    await faultPoint('update.failed');
    await writes.write(async () => void (await failUpdate(fenced, update, outcome.reason)));
  }
  if (outcome.kind !== 'postponed') return true;
  await postponeUpdate(pool, queues, update.installationId, POSTPONED_S);
  return false;
}
