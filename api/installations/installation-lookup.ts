/** Finds and locks installations that the caller may read or change. */
import type { ClientBase } from 'pg';
import {
  findAnyInstallation,
  findInstallation,
  type Installation,
  lockInstallation,
} from '../../db/installations/installations.ts';
import { notifyIfInstallationChanged } from '../../db/postgres/notifications.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../../service/identity/caller.ts';
import type { Services } from '../services.ts';

/** Runs a change with the installation's row locked, and notifies supervisors with the commit if it changed the row. */
export async function changeLockedInstallation<T>(
  services: Services,
  caller: Caller,
  installationId: string,
  change: (tx: ClientBase, installation: Installation) => Promise<T>,
): Promise<T> {
  return inTransaction(services.pool, async (tx) => {
    const installation = await lockInstallation(tx, caller.id, installationId);
    if (!installation) throw unknownInstallation();
    const result = await change(tx, installation);
    await notifyIfInstallationChanged(tx, installationId);
    return result;
  });
}

/**
 * @param access `read`: operators may read those of all accounts
 * @throws Problem `not_found`, also for installations of other accounts
 */
export async function requireInstallation(
  services: Pick<Services, 'pool'>,
  caller: Caller,
  id: string,
  access: 'read' | 'change' = 'change',
): Promise<Installation> {
  const find = access === 'read' ? findReadableInstallation : findOwn;
  const installation = await find(services, caller, id);
  if (!installation) throw unknownInstallation();
  return installation;
}

/** Finds an installation that the caller may read: the caller's own, or any for an operator. */
export function findReadableInstallation(
  services: Pick<Services, 'pool'>,
  caller: Caller,
  id: string,
): Promise<Installation | null> {
  return caller.operator ? findAnyInstallation(services.pool, id) : findOwn(services, caller, id);
}

const findOwn = ({ pool }: Pick<Services, 'pool'>, caller: Caller, id: string) => findInstallation(pool, caller.id, id);
const unknownInstallation = () => new Problem('not_found', 'You have no installation with this id.');
