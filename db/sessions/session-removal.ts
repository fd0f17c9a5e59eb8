/** Deletes sessions together with their agent, channel or installation, and sends `sessionDeleted` to plugins. */

import { events } from '../../sdk/contract/protocol.ts';
import { findSubscribers, type Subscriber } from '../installations/subscribers.ts';
import type { Queues } from '../jobs/queues.ts';
import { notifySessionsDeleted } from '../postgres/notifications.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import type { Transaction } from '../postgres/pool.ts';
import { recordChanges } from './session-changes.ts';

/** Sessions per statement: limits its memory and duration. */
const BATCH = 1_000;

interface DeletedSession {
  readonly sessionId: string;
  readonly agentId: string;
}

/** Take this lock before any row lock: two removals of overlapping sessions would deadlock without it. */
export const nameSessionsLock = (accountId: string): string => `sessions:${accountId}`;

/**
 * Deletes sessions with their transcripts. Notifies supervisors and the account's plugins with the commit. Skips sessions
 * that are deleted already. The caller must hold `nameSessionsLock`.
 */
export async function deleteSessions(
  tx: Transaction,
  queues: Queues,
  { accountId, sessionIds }: { readonly accountId: string; readonly sessionIds: readonly string[] },
): Promise<void> {
  if (sessionIds.length === 0) return;
  const subscribers = await findSubscribers(tx, accountId, 'sessionDeleted');
  for (let start = 0; start < sessionIds.length; start += BATCH) {
    const batch = sessionIds.slice(start, start + BATCH);
    await recordChanges(tx, batch, 'deleted');
    const deleted = await tx.query<DeletedSession>(
      `DELETE FROM sessions WHERE account_id = $1 AND id = ANY ($2) RETURNING id AS "sessionId", agent_id AS "agentId"`,
      [accountId, batch],
    );
    await notifySessionsDeleted(
      tx,
      deleted.rows.map(({ sessionId }) => sessionId),
    );
    for (const subscriber of subscribers) await recordSessionsDeleted(tx, queues, accountId, subscriber, deleted.rows);
  }
}

async function recordSessionsDeleted(
  tx: Transaction,
  queues: Queues,
  accountId: string,
  { installationId, pluginId, versionId, semVer }: Subscriber,
  deleted: readonly DeletedSession[],
): Promise<void> {
  const ids = deleted.map(() => orderedId(Date.now()));
  await tx.query(
    `INSERT INTO events (id, installation_id, account_id, plugin_id, version_id, semver, type, data)
     SELECT e.id, $1, $2, $3, $4, $5, 'sessionDeleted', e.data
       FROM unnest($6::text[], $7::jsonb[]) AS e(id, data)`,
    [
      installationId,
      accountId,
      pluginId,
      versionId,
      semVer,
      ids,
      deleted.map((data) => JSON.stringify(events.sessionDeleted.data.parse(data))),
    ],
  );
  const jobs = ids.map((eventId) => ({ eventId, installationId }));
  await queues.sendAll(tx, 'events', jobs, { group: { id: installationId, accountId } });
}
