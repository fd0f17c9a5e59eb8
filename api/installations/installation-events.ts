/** Records the lifecycle events of an installation for its plugin. */
import type { ClientBase } from 'pg';
import type { z } from 'zod';
import { DRAFT_SEM_VER } from '../../db/installations/account-plugins.ts';
import { recordEvent } from '../../db/installations/events.ts';
import type { Installation } from '../../db/installations/installations.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import type { EventName, events } from '../../sdk/contract/protocol.ts';

type Recipient = Pick<Installation, 'id' | 'accountId' | 'pluginId' | 'currentVersionId' | 'currentSemVer'>;

/** @param tx the transaction that changes the installation. @returns the event's id */
export function recordInstallationEvent<Type extends EventName>(
  tx: ClientBase,
  queues: Queues,
  { id: installationId, accountId, pluginId, currentVersionId: versionId, currentSemVer }: Recipient,
  type: Type,
  data: z.infer<(typeof events)[Type]['data']>,
): Promise<string> {
  const semVer = currentSemVer ?? DRAFT_SEM_VER;
  return recordEvent(tx, queues, { installationId, accountId, pluginId, versionId, semVer, type, data });
}
