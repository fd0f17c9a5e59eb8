/** Lets the database record each write of a counter with the epoch that its transaction was fenced with. */
import type { Pool } from 'pg';
import type { CounterWrite } from './records.ts';

/** The key of the counter in `host.storage`. */
export const COUNTER_KEY = 'count';

/** A table and a trigger beside the product's own, and a wrapper that remembers the epoch of a transaction. */
export async function installWriteLedger(pool: Pool): Promise<void> {
  await pool.query(`
    CREATE TABLE nemesis_writes (position bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
      installation_id text NOT NULL, fence text NOT NULL, count bigint NOT NULL);
    ALTER FUNCTION hold_shard(integer, integer) RENAME TO hold_shard_unrecorded;
    CREATE FUNCTION hold_shard(held integer, held_epoch integer) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM set_config('nemesis.fence', held_epoch::text, true);
      RETURN hold_shard_unrecorded(held, held_epoch);
    END $$;
    CREATE FUNCTION nemesis_record() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO nemesis_writes (installation_id, fence, count)
        VALUES (new.installation_id, coalesce(current_setting('nemesis.fence', true), ''), new.value::text::bigint);
      RETURN NULL;
    END $$;
    CREATE TRIGGER nemesis_record AFTER INSERT OR UPDATE ON installation_storage
      FOR EACH ROW WHEN (new.key = '${COUNTER_KEY}') EXECUTE FUNCTION nemesis_record();`);
}

/** All writes, in their order. The row lock of a counter makes the order of the positions that of the commits. */
export async function listWrites(pool: Pool): Promise<CounterWrite[]> {
  const { rows } = await pool.query<{ account: string; shard: number; fence: string; count: string; at: string }>(
    `SELECT a.name AS account, account_shard(a.id) AS shard, w.fence, w.count,
            extract(epoch FROM w.at) * 1000 AS at
       FROM nemesis_writes w JOIN installations i ON i.id = w.installation_id JOIN accounts a ON a.id = i.account_id
      ORDER BY w.position`,
  );
  return rows.map(({ account, shard, fence, count, at }) => ({
    account,
    shard,
    epoch: fence === '' ? null : Number(fence),
    count: Number(count),
    at: Number(at),
  }));
}
