/** Running supervisors: each keeps a row by a heartbeat, and its lease ends with the row's expiry by the database's clock. */
import type { Client, Pool } from 'pg';
import { notifyShardsChanged } from '../postgres/notifications.ts';
import { changeRows, hasRow, type Queryable } from '../postgres/rows.ts';

/** A supervisor that has sent no heartbeat for this long owns nothing that another wants. Milliseconds. */
export const LEASE_MS = 10_000;
/** Rows of supervisors that were killed are kept this long, for operators. Seconds. */
const KEPT_S = 3_600;

export interface NewSupervisor {
  readonly id: number;
  /** Host and port at which other supervisors reach it. */
  readonly address: string;
  readonly peerKey: Buffer;
  readonly release: string;
  readonly capacity: number;
  /** Names the process on its machine. */
  readonly process: string;
}
export interface Peer extends Omit<NewSupervisor, 'peerKey' | 'release'> {
  /** In base64. */
  readonly peerKey: string;
  readonly draining: boolean;
  /** Until its lease ends, by the database's clock; not more than 0: it has ended. Milliseconds. */
  readonly expiresInMs: number;
}
export interface ClusterState {
  readonly peers: readonly Peer[];
  /** Owner and epoch of each shard. */
  readonly shards: readonly (readonly [owner: number | null, epoch: number])[];
}

const EXPIRES = `clock_timestamp() + interval '${LEASE_MS} milliseconds'`;

export async function addSupervisor(pool: Pool, supervisor: NewSupervisor): Promise<void> {
  const { id, address, peerKey, release, capacity, process } = supervisor;
  await pool.query(`DELETE FROM supervisors WHERE expires_at < now() - interval '${KEPT_S} seconds'`);
  await pool.query(
    `INSERT INTO supervisors (id, address, peer_key, release, capacity, process, expires_at)
     VALUES ($1, $2, $3, $4, $5, $6, ${EXPIRES}) ON CONFLICT DO NOTHING`,
    [id, address, peerKey, release, capacity, process],
  );
  await notifyShardsChanged(pool);
}

/** Extends the lease. @returns false: the row is gone, after a restore of the database */
export async function extendLease(client: Client, id: number): Promise<boolean> {
  return (await changeRows(client, `UPDATE supervisors SET expires_at = ${EXPIRES} WHERE id = $1`, [id])) === 1;
}

export async function readCluster(db: Queryable): Promise<ClusterState> {
  const { rows } = await db.query<ClusterState>(
    `SELECT (SELECT coalesce(json_agg(json_build_object('id', v.id, 'address', v.address,
                      'peerKey', encode(v.peer_key, 'base64'), 'capacity', v.capacity, 'draining', v.draining,
                      'process', v.process,
                      'expiresInMs', extract(epoch FROM v.expires_at - now()) * 1000)), '[]') FROM supervisors v) AS peers,
            (SELECT json_agg(json_build_array(s.owner, s.epoch) ORDER BY s.id) FROM shards s) AS shards`,
  );
  return rows[0] ?? { peers: [], shards: [] };
}

/** Other supervisors give it nothing more. */
export async function markDraining(pool: Pool, id: number): Promise<void> {
  await pool.query('UPDATE supervisors SET draining = true WHERE id = $1', [id]);
  await notifyShardsChanged(pool);
}

/** Ends the lease of a supervisor whose process has ended. */
export async function expireSupervisor(db: Queryable, id: number): Promise<void> {
  await db.query('UPDATE supervisors SET expires_at = clock_timestamp() WHERE id = $1', [id]);
}

export async function removeSupervisor(pool: Pool, id: number): Promise<void> {
  await pool.query('DELETE FROM supervisors WHERE id = $1', [id]);
  await notifyShardsChanged(pool);
}

export const isSupervisorRunning = (db: Queryable): Promise<boolean> =>
  hasRow(db, 'SELECT 1 FROM supervisors WHERE expires_at > now() LIMIT 1');
