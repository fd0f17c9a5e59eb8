/** Operator command that removes old finished rows and unused blobs. */

import type { Pool } from 'pg';
import { recordAction } from '../../db/accounts/operator-actions.ts';
import { findClusterMismatch } from '../../db/cluster/cluster-record.ts';
import { sweepBlobs } from '../../db/files/unused-blobs.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { changeRows, findValue } from '../../db/postgres/rows.ts';
import type { SharedSettings } from '../../service/settings/settings.ts';
import { openConfiguredBlobs } from '../../service/storage/blob-stores.ts';
import { describeMember } from '../../service/storage/membership.ts';
import { type CommandContext, type OperatorCommand, readNumber } from './command.ts';

const DAYS = 30;
const DAYS_MAX = 36_500;
/** Maximum rows removed by one transaction. */
const BATCH = 5_000;
/** Minimum age of a staging folder that is removed; one in use is younger. Milliseconds. */
const STAGING_MS = 24 * 3_600_000;

export const prune: OperatorCommand = {
  subjects: [],
  doc: 'remove old finished deliveries and events, and unused blobs',
  options: {
    days: {
      type: 'string',
      value: 'number',
      doc: `minimum age in days, ${DAYS} by default; deliveries are deleted after DELIVERY_DAYS anyway`,
    },
    dead: { type: 'boolean', doc: 'remove dead letters, too; otherwise they stay for replay' },
    'dry-run': { type: 'boolean', doc: 'only print what would be removed' },
  },
  async run(args, context) {
    const days = readNumber(args, 'days', DAYS, DAYS_MAX);
    const of = {
      days,
      states: args.options.dead === true ? ['delivered', 'skipped', 'dead'] : ['delivered', 'skipped'],
    };
    const isTrial = args.options['dry-run'] === true;
    const { pool } = await (isTrial ? context.database() : context.currentDatabase());
    await requireOwnBlobs(pool, context.settings);
    const deliveries = await (isTrial ? countOld : removeOld)(context, 'deliveries', of);
    const events = await (isTrial ? countOld : removeOld)(context, 'events', of);
    const store = await openConfiguredBlobs(pool, context.settings);
    const blobs = await sweepBlobs(pool, store, undefined, isTrial);
    if (!isTrial) {
      await store.sweepStaging(STAGING_MS, Date.now());
      await inTransaction(pool, (tx) => recordAction(tx, { action: 'prune', subject: `older than ${days} days` }));
    }
    const what = `${deliveries} deliveries, ${events} events and ${blobs ?? 'no'} unused blobs`;
    const busy =
      blobs === null ? ' The service or a backup is using the blobs: run this again later to remove unused ones.' : '';
    return {
      sentence: isTrial ? `Would remove ${what}. Nothing was removed.${busy}` : `Removed ${what}.${busy}`,
      fields: { dryRun: isTrial, days, deliveries, events, blobs },
    };
  },
};

/** The database says which blobs are used, so all blobs of another database would be removed. */
async function requireOwnBlobs(pool: Pool, settings: SharedSettings): Promise<void> {
  const mismatch = await findClusterMismatch(pool, await describeMember(pool, settings));
  if (mismatch !== null) throw new Error(`${mismatch} Nothing was removed.`);
}

interface Old {
  readonly days: number;
  readonly states: readonly string[];
}
type Table = 'deliveries' | 'events';

const OLD = `state = ANY ($1) AND finished_at < now() - make_interval(days => $2)`;

async function countOld(context: CommandContext, table: Table, { states, days }: Old): Promise<number> {
  const { pool } = await context.database();
  return Number(await findValue(pool, `SELECT count(*) FROM ${table} WHERE ${OLD}`, [states, days]));
}

async function removeOld(context: CommandContext, table: Table, { states, days }: Old): Promise<number> {
  const { pool } = await context.currentDatabase();
  for (let removed = 0; ; ) {
    const deleted = await changeRows(
      pool,
      // PostgreSQL checks the outer condition again for a dead letter that was replayed while this statement waited for its row.
      `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE ${OLD} LIMIT ${BATCH}) AND ${OLD}`,
      [states, days],
    );
    removed += deleted;
    if (deleted < BATCH) return removed;
    context.printProgress(`${removed} ${table} removed`);
  }
}
