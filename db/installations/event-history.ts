/** Lists and replays events for their user. `events.ts` delivers them. */

import type { ClientBase, Pool } from 'pg';
import type { Queues } from '../jobs/queues.ts';
import type { Page } from '../postgres/cursors.ts';
import {
  findRow,
  findValue,
  type PageQuery,
  type Queryable,
  readFilteredPage,
  weighJsonSql,
} from '../postgres/rows.ts';

type EventState = 'pending' | 'delivered' | 'skipped' | 'dead';
export interface RecordedEvent {
  readonly id: string;
  readonly type: string;
  readonly state: EventState;
  readonly attempts: number;
  readonly occurredAt: string;
  readonly nextAttemptAt: string | null;
  readonly lastError: string | null;
  readonly finishedAt: string | null;
  readonly data: unknown;
}
const COLUMNS = `id, type, state, attempts, occurred_at AS "occurredAt",
  CASE WHEN state = 'pending' AND next_attempt_at < 'infinity' THEN next_attempt_at END AS "nextAttemptAt",
  last_error AS "lastError", finished_at AS "finishedAt", data`;

/** `stored_bytes` counts 700 for the columns of bounded size, which are not JSON. */
const BYTES = `700 + ${weighJsonSql('(stored_bytes - 700)')}`;

/** Newest first. */
export const pageEvents = (
  pool: Pool,
  query: PageQuery & { readonly installationId: string; readonly state?: EventState | undefined },
): Promise<Page<RecordedEvent>> =>
  readFilteredPage<RecordedEvent>(
    pool,
    {
      columns: COLUMNS,
      table: 'e',
      rows: 'SELECT * FROM events WHERE installation_id = $1',
      isWanted: '($2::text IS NULL OR state = $2)',
      bytes: BYTES,
    },
    [query.installationId, query.state ?? null],
    query,
  );

/** Makes a finished event pending again with all attempts left. Null: no finished event has this id. */
export async function replayEvent(
  tx: ClientBase,
  queues: Queues,
  installationId: string,
  eventId: string,
): Promise<RecordedEvent | null> {
  const accountId = await findValue<string>(
    tx,
    `UPDATE events SET state = 'pending', attempts = 0, interruptions = 0, next_attempt_at = now(), replayed_at = now(), finished_at = NULL,
            claimed_by = NULL
      WHERE id = $1 AND installation_id = $2 AND state <> 'pending' RETURNING account_id`,
    [eventId, installationId],
  );
  if (accountId === null) return null;
  await queues.send(tx, 'events', { eventId, installationId }, { group: { id: installationId, accountId } });
  return findEvent(tx, installationId, eventId);
}

export const findEvent = (db: Queryable, installationId: string, eventId: string): Promise<RecordedEvent | null> =>
  findRow(db, `SELECT ${COLUMNS} FROM events WHERE id = $1 AND installation_id = $2`, [eventId, installationId]);
