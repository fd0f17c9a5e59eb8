/**
 * Each account belongs to one of 256 shards. One supervisor owns a shard and runs all plugins of its accounts. Each change of owner
 * gives the shard a new epoch.
 */
import { hash } from 'node:crypto';
import type { Pool } from 'pg';
import { notifyShardsChanged } from '../postgres/notifications.ts';
import type { Fence } from '../postgres/pool.ts';
import { listRows, type Queryable } from '../postgres/rows.ts';

/** Number of rows in `shards`. A supervisor beyond this number would have no work. */
export const SHARDS = 256;

/** Computes the shard of an account, like the SQL function `account_shard`. */
export function findShard(accountId: string): number {
  return Number.parseInt(hash('sha256', accountId, 'hex').slice(0, 2), 16);
}

/** SQL condition: the epoch in this column is the current one of a shard, and the lease of its owner has not expired. False for NULL. */
export const isEpochHeldSql = (column: string): string =>
  `EXISTS (SELECT 1 FROM shards held JOIN supervisors holder ON holder.id = held.owner
            WHERE held.epoch = ${column} AND holder.expires_at > now())`;

/** SQL condition: the account in this column is in one of the shards. @param parameter an array of shards; null: all shards */
export const isInShardsSql = (column: string, parameter: string): string =>
  `(${parameter}::int[] IS NULL OR account_shard(${column}) = ANY (${parameter}))`;

/** Claims those of the shards whose owner has released them or lost its lease. Concurrent claims never get the same shard. */
export async function claimShards(db: Queryable, supervisor: number, wanted: readonly number[]): Promise<Fence[]> {
  const sql = 'SELECT shard, shard_epoch AS epoch FROM claim_shards($1, $2)';
  const claimed = await listRows<Fence>(db, sql, [supervisor, wanted]);
  if (claimed.length > 0) await notifyShardsChanged(db);
  return claimed;
}

/** Releases shards. Their epochs change, so later writes of the supervisor for their plugins fail. */
export async function releaseShards(pool: Pool, fences: readonly Fence[]): Promise<void> {
  await pool.query(
    `UPDATE shards s SET owner = NULL, epoch = nextval('shard_epochs')
       FROM unnest($1::int[], $2::int[]) AS released (shard, epoch) WHERE s.id = released.shard AND s.epoch = released.epoch`,
    [fences.map(({ shard }) => shard), fences.map(({ epoch }) => epoch)],
  );
  await notifyShardsChanged(pool);
}
