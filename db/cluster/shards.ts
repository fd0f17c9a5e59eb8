/**
 * Shards: each account is in one of a fixed number of them, and one supervisor owns each shard, with all plugins of its accounts.
 * Each change of owner gives the shard another epoch.
 */
import { hash } from 'node:crypto';
import type { Pool } from 'pg';
import { notifyShardsChanged } from '../postgres/notifications.ts';
import type { Fence } from '../postgres/pool.ts';
import { listRows, type Queryable } from '../postgres/rows.ts';

/** Number of rows in `shards`; a claim locks them. More supervisors than shards would have no work. */
export const SHARDS = 256;

/** The shard of an account, as `account_shard` in SQL. */
export function findShard(accountId: string): number {
  return Number.parseInt(hash('sha256', accountId, 'hex').slice(0, 2), 16);
}

/** Condition: the epoch in this column is a current one, and its owner runs. False for NULL. */
export const isEpochHeldSql = (column: string): string =>
  `EXISTS (SELECT 1 FROM shards held JOIN supervisors holder ON holder.id = held.owner
            WHERE held.epoch = ${column} AND holder.expires_at > now())`;

/** Condition: the account in this column is in one of the shards. @param parameter an array of shards; null: all */
export const isInShardsSql = (column: string, parameter: string): string =>
  `(${parameter}::int[] IS NULL OR account_shard(${column}) = ANY (${parameter}))`;

/** Claims those of the shards that have no owner. In one transaction, so all claimants get different ones. */
export async function claimShards(db: Queryable, supervisor: number, wanted: readonly number[]): Promise<Fence[]> {
  const sql = 'SELECT shard, shard_epoch AS epoch FROM claim_shards($1, $2)';
  const claimed = await listRows<Fence>(db, sql, [supervisor, wanted]);
  if (claimed.length > 0) await notifyShardsChanged(db);
  return claimed;
}

/** Gives shards up. The epoch changes, so what the supervisor still writes for their plugins fails. */
export async function releaseShards(pool: Pool, fences: readonly Fence[]): Promise<void> {
  await pool.query(
    `UPDATE shards s SET owner = NULL, epoch = nextval('shard_epochs')
       FROM unnest($1::int[], $2::int[]) AS given (shard, epoch) WHERE s.id = given.shard AND s.epoch = given.epoch`,
    [fences.map(({ shard }) => shard), fences.map(({ epoch }) => epoch)],
  );
  await notifyShardsChanged(pool);
}
