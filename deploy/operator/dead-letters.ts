/** Operator commands that list and replay dead letters: deliveries and events that used up their attempts. */
import type { Pool } from 'pg';
import { recordAction } from '../../db/accounts/operator-actions.ts';
import { isReplayedWithAllSql, replayDeliveries } from '../../db/channels/delivery-history.ts';
import { replayEvent } from '../../db/installations/event-history.ts';
import { type Queues, startQueues } from '../../db/jobs/queues.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { hasRow, listValues } from '../../db/postgres/rows.ts';
import { listDeadLetters } from '../../db/records/operator-overview.ts';
import {
  formatTable,
  linesOption,
  type OperatorCommand,
  type ParsedArgs,
  readCutList,
  readText,
  UsageError,
} from './command.ts';

/** Refuses an unknown id: an empty list would look like an installation without dead letters. @throws Error */
export async function requireInstallation(pool: Pool, id: string | null): Promise<void> {
  if (id === null || (await hasRow(pool, 'SELECT 1 FROM installations WHERE id = $1', [id]))) return;
  throw new Error(`No installation has the id “${id}”.`);
}

/** Returns the ids that no finished delivery or event has. The number of replayed rows alone would hide a misspelt id. */
async function listUnknown(pool: Pool, ids: readonly string[]): Promise<string[]> {
  const finished = await listValues<string>(
    pool,
    `SELECT id FROM deliveries WHERE id = ANY ($1) AND state <> 'pending'
     UNION ALL SELECT id FROM events WHERE id = ANY ($1) AND state <> 'pending'`,
    [ids],
  );
  const known = new Set(finished);
  return ids.filter((id) => !known.has(id));
}

/** Rows replayed in one transaction. */
const BATCH = 1_000;

const installation = { type: 'string', value: 'id', doc: 'of one installation' } as const;

export const deadLetters: OperatorCommand = {
  subjects: [],
  doc: 'deliveries and events that used up their attempts, and why; newest first',
  options: {
    installation,
    limit: linesOption,
  },
  async run(args, context) {
    const { pool } = await context.database();
    const installationId = readText(args, 'installation');
    await requireInstallation(pool, installationId);
    const { rows: items, rest } = await readCutList(args, (limit) => listDeadLetters(pool, installationId, limit));
    const lines = items.map((item) => ({
      ID: item.id,
      KIND: item.kind,
      PLUGIN: item.slug,
      INSTALLATION: item.installationId,
      WHAT: item.what,
      ATTEMPTS: item.attempts,
      AT: item.at,
      'LAST ERROR': item.lastError,
    }));
    return { sentence: formatTable(lines, 'There are no dead letters.') + rest, fields: { items, more: rest !== '' } };
  },
};

export const replay: OperatorCommand = {
  subjects: ['id…'],
  doc: 'replay dead letters, or finished deliveries and events by id, with all attempts',
  options: {
    installation: { ...installation, doc: 'all dead letters of one installation' },
    all: { type: 'boolean', doc: 'all dead letters' },
  },
  async run(args, context) {
    const { pool } = await context.currentDatabase();
    const installationId = readText(args, 'installation');
    const choices = [args.subjects.length > 0, installationId !== null, args.options.all === true].filter(Boolean);
    if (choices.length !== 1) throw new UsageError('Give ids, --installation or --all.');
    await requireInstallation(pool, installationId);
    const unknown = await listUnknown(pool, args.subjects);
    const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
    try {
      const deliveries = await replayEach(pool, queues, 'deliveries', args, installationId);
      const events = await replayEach(pool, queues, 'events', args, installationId);
      if (args.subjects.length > 0 && deliveries + events === 0) {
        throw new Error('No finished delivery or event has this id.');
      }
      const rest = unknown.length === 0 ? '' : ` No finished delivery or event has the id ${unknown.join(', ')}.`;
      const sentence = `${deliveries} deliveries and ${events} events will be delivered again.${rest}`;
      return { sentence, fields: { deliveries, events, unknown } };
    } finally {
      await queues.stop();
    }
  },
};

/** Says in the record of the action which dead letters the operator chose. */
function describeChoice({ subjects }: ParsedArgs, installationId: string | null): string {
  if (installationId !== null) return `installation ${installationId}`;
  return subjects.length === 0 ? '--all' : subjects.join(', ');
}

/** Replays rows in batches, so that no transaction locks many. Deliveries of disconnected channels stay dead. */
async function replayEach(
  pool: Pool,
  queues: Queues,
  table: 'deliveries' | 'events',
  args: ParsedArgs,
  chosenInstallation: string | null,
): Promise<number> {
  const isWanted = table === 'deliveries' ? isReplayedWithAllSql('r') : 'true';
  let total = 0;
  for (let after = ''; ; ) {
    const { rows } = await pool.query<{ id: string; installationId: string }>(
      `SELECT id, installation_id AS "installationId" FROM ${table} r
        WHERE CASE WHEN $1::text[] = '{}' THEN state = 'dead' AND ${isWanted} ELSE id = ANY ($1) AND state <> 'pending' END
          AND ($2::text IS NULL OR installation_id = $2) AND id > $3
        ORDER BY id LIMIT ${BATCH}`,
      [args.subjects, chosenInstallation, after],
    );
    const last = rows.at(-1);
    if (last === undefined) return total;
    after = last.id;
    total += await inTransaction(pool, async (tx) => {
      let replayed = 0;
      for (const { id, installationId } of rows) {
        if (table === 'deliveries') replayed += await replayDeliveries(tx, { installationId, id, limit: 1 });
        else if (await replayEvent(tx, queues, installationId, id)) replayed += 1;
      }
      if (replayed > 0)
        await recordAction(tx, {
          action: 'replay',
          subject: `${replayed} ${table}`,
          reason: describeChoice(args, chosenInstallation),
        });
      return replayed;
    });
  }
}
