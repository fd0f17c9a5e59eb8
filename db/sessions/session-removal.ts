/** Chats that end with what they belonged to: an agent, a channel, an installation. */
import { randomUUIDv7 } from 'node:crypto';
import { events } from '../../sdk/contract/protocol.ts';
import { DRAFT_SEM_VER } from '../installations/account-plugins.ts';
import type { Queues } from '../jobs/queues.ts';
import { notifySessionsDeleted } from '../postgres/notifications.ts';
import { type Transaction, takeNamedLock } from '../postgres/pool.ts';

/** Chats removed, and events written, by one statement: bounds memory and the time of each. */
const AT_ONCE = 1_000;

interface Gone {
  readonly sessionId: string;
  readonly agentId: string;
}
interface Listening {
  readonly installationId: string;
  readonly pluginId: string;
  readonly versionId: string;
  readonly semVer: string | null;
}

/**
 * Holds the account's chats until the transaction ends: two removals that meet in some of them would wait for each other
 * for ever. To be taken before any row.
 */
export const lockAccountSessions = (tx: Transaction, accountId: string): Promise<void> =>
  takeNamedLock(tx, `sessions:${accountId}`);

/**
 * Removes sessions with their transcripts and tells supervisors and the account's plugins, with the commit.
 *
 * @param of the account, whose chats the transaction has locked; sessions that are gone are passed over
 */
export async function deleteSessions(
  tx: Transaction,
  queues: Queues,
  of: { readonly accountId: string; readonly sessionIds: readonly string[] },
): Promise<void> {
  if (of.sessionIds.length === 0) return;
  const listening = await findListening(tx, of.accountId);
  for (let start = 0; start < of.sessionIds.length; start += AT_ONCE) {
    const removed = await tx.query<Gone>(
      `DELETE FROM sessions WHERE account_id = $1 AND id = ANY ($2) RETURNING id AS "sessionId", agent_id AS "agentId"`,
      [of.accountId, of.sessionIds.slice(start, start + AT_ONCE)],
    );
    await notifySessionsDeleted(
      tx,
      removed.rows.map(({ sessionId }) => sessionId),
    );
    for (const plugin of listening) await tellRemoved(tx, queues, of.accountId, plugin, removed.rows);
  }
}

/** Installations that may run and whose version has a handler. One that is being removed has said its last word. */
async function findListening(tx: Transaction, accountId: string): Promise<Listening[]> {
  const found = await tx.query<Listening>(
    `SELECT i.id AS "installationId", i.plugin_id AS "pluginId", v.id AS "versionId", v.semver AS "semVer"
       FROM installations i JOIN plugins p ON p.id = i.plugin_id JOIN versions v ON v.id = i.current_version_id
      WHERE i.account_id = $1 AND i.status IN ('ready', 'failed') AND p.blocked_reason IS NULL
        AND v.registrations -> 'events' ? 'sessionDeleted'`,
    [accountId],
  );
  return found.rows;
}

async function tellRemoved(
  tx: Transaction,
  queues: Queues,
  accountId: string,
  { installationId, pluginId, versionId, semVer }: Listening,
  gone: readonly Gone[],
): Promise<void> {
  const ids = gone.map(() => randomUUIDv7());
  await tx.query(
    `INSERT INTO events (id, installation_id, account_id, plugin_id, version_id, semver, type, data)
     SELECT e.id, $1, $2, $3, $4, $5, 'sessionDeleted', e.data
       FROM unnest($6::text[], $7::jsonb[]) AS e(id, data)`,
    [
      ...[installationId, accountId, pluginId, versionId, semVer ?? DRAFT_SEM_VER, ids],
      gone.map((data) => JSON.stringify(events.sessionDeleted.data.parse(data))),
    ],
  );
  const jobs = ids.map((eventId) => ({ eventId, installationId }));
  await queues.sendAll(tx, 'events', jobs, { group: installationId });
}
