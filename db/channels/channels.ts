/** Channels (connected vendor inboxes) and their webhook addresses, current and retired. */

import { randomBytes } from 'node:crypto';
import type { ClientBase } from 'pg';
import type { Registrations } from '../../sdk/contract/protocol.ts';
import { notifyAddressesSql } from '../postgres/notifications.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import { changeRows, findRow, hasRow, listRows, type Queryable } from '../postgres/rows.ts';

const ROUTING_BYTES = 16;
/**
 * Retired addresses of an installation that answer 410. Older ones are deleted, because no quota counts them, and an account can
 * replace 600 addresses a minute.
 */
export const RETIRED_ADDRESSES_MAX = 1_000;
const createRoutingId = (): string => randomBytes(ROUTING_BYTES).toString('base64url');
/** Rejects malformed routing ids without a query. */
export const ROUTING_ID = /^[A-Za-z0-9_-]{22}$/;

export interface Channel {
  readonly id: string;
  readonly installationId: string;
  readonly name: string;
  readonly routingId: string;
  /** Answers in the channel. */
  readonly agentId: string;
  readonly connectedAt: string;
}
const COLUMNS = `id, installation_id AS "installationId", name, routing_id AS "routingId",
  coalesce(agent_id, id) AS "agentId", connected_at AS "connectedAt"`;

export async function insertChannel(
  tx: ClientBase,
  { installationId, accountId, name }: { installationId: string; accountId: string; name: string },
): Promise<Channel> {
  const id = orderedId(Date.now());
  const routingId = createRoutingId();
  const made = await tx.query<Channel>(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES ($1, $2, $3, $4, $5)
      RETURNING ${COLUMNS}`,
    [id, installationId, accountId, name, routingId],
  );
  await addAddress(tx, routingId, id, installationId);
  return made.rows[0] as Channel;
}

export const hasChannel = (pool: Queryable, accountId: string, id: string): Promise<boolean> =>
  hasRow(pool, 'SELECT 1 FROM channels WHERE id = $2 AND account_id = $1', [accountId, id]);

/** Gives a channel a new address. After the commit, requests to the old one get 410. Null: no such channel. */
export async function replaceAddress(
  tx: ClientBase,
  installationId: string,
  channelId: string,
): Promise<Channel | null> {
  const routingId = createRoutingId();
  const row = await findRow<Channel>(
    tx,
    `UPDATE channels SET routing_id = $3 WHERE id = $2 AND installation_id = $1 RETURNING ${COLUMNS}`,
    [installationId, channelId, routingId],
  );
  if (!row) return null;
  await retireAddresses(tx, 'channel_id', channelId);
  await addAddress(tx, routingId, channelId, installationId);
  return row;
}

/** False: no such channel. */
export async function deleteChannel(tx: ClientBase, installationId: string, channelId: string): Promise<boolean> {
  const sql = 'DELETE FROM channels WHERE id = $2 AND installation_id = $1';
  if ((await changeRows(tx, sql, [installationId, channelId])) === 0) return false;
  await retireAddresses(tx, 'channel_id', channelId);
  return true;
}

/** Retires all addresses of an installation: after the commit, requests to them get 410. */
export const retireInstallationAddresses = (tx: ClientBase, installationId: string): Promise<void> =>
  retireAddresses(tx, 'installation_id', installationId);

async function addAddress(tx: ClientBase, routingId: string, channelId: string, installationId: string): Promise<void> {
  const insert = 'INSERT INTO channel_addresses (routing_id, channel_id, installation_id) VALUES ($1, $2, $3)';
  await tx.query(insert, [routingId, channelId, installationId]);
  await tx.query(notifyAddressesSql('SELECT $1::text AS routing_id'), [routingId]);
  await deleteOldAddresses(tx, installationId);
}

/** Also bounds how many are deleted at once: earlier releases kept all. */
async function deleteOldAddresses(tx: ClientBase, installationId: string): Promise<void> {
  await tx.query(
    `DELETE FROM channel_addresses WHERE routing_id IN (
       SELECT routing_id FROM channel_addresses WHERE installation_id = $1 AND retired_at IS NOT NULL
        ORDER BY retired_at DESC OFFSET $2 LIMIT $2)`,
    [installationId, RETIRED_ADDRESSES_MAX],
  );
}

async function retireAddresses(tx: ClientBase, column: 'channel_id' | 'installation_id', id: string): Promise<void> {
  await tx.query(
    `WITH retired AS (
       UPDATE channel_addresses SET retired_at = now() WHERE ${column} = $1 AND retired_at IS NULL RETURNING routing_id
     ) ${notifyAddressesSql('SELECT routing_id FROM retired')}`,
    [id],
  );
}

type HandshakeOn = NonNullable<Registrations['channel']['handshakeOn']>;
/** The channel that an address belongs to. */
export interface Address {
  readonly channelId: string;
  readonly installationId: string;
  readonly accountId: string;
  /** The plugin answers handshakes on every GET and OPTIONS, and on the POST requests that this selects. Null: no handshakes. */
  readonly handshake: HandshakeOn | null;
}
export type FoundAddress = Address | 'retired' | 'unknown';

interface AddressRow extends Omit<Address, 'handshake'> {
  /** Null: its installation has no version yet. */
  readonly channel: Partial<Registrations['channel']> | null;
}
const ADDRESS_COLUMNS = `c.id AS "channelId", c.installation_id AS "installationId", c.account_id AS "accountId",
  v.registrations -> 'channel' AS channel`;
const ITS_VERSION = `LEFT JOIN installations i ON i.id = c.installation_id LEFT JOIN versions v ON v.id = i.current_version_id`;

/** Finds the channels of addresses, by routing id, in one statement. Unknown ones are absent. */
export async function findAddresses(
  pool: Queryable,
  routingIds: readonly string[],
): Promise<ReadonlyMap<string, Address | 'retired'>> {
  const rows = await listRows<{ routingId: string; retired: boolean } & AddressRow>(
    pool,
    `SELECT a.routing_id AS "routingId", a.retired_at IS NOT NULL OR c.id IS NULL AS retired, ${ADDRESS_COLUMNS}
       FROM channel_addresses a LEFT JOIN channels c ON c.routing_id = a.routing_id ${ITS_VERSION}
      WHERE a.routing_id = ANY ($1)`,
    [routingIds],
  );
  return new Map(rows.map((row) => [row.routingId, row.retired ? 'retired' : toAddress(row)]));
}

/** Lists the addresses in use, by routing id. @param after the last one of the page before */
export async function listAddresses(
  pool: Queryable,
  after: string,
  limit: number,
): Promise<{ readonly routingId: string; readonly address: Address }[]> {
  const found = await pool.query<{ routingId: string } & AddressRow>(
    `SELECT c.routing_id AS "routingId", ${ADDRESS_COLUMNS} FROM channels c ${ITS_VERSION}
       JOIN channel_addresses a ON a.routing_id = c.routing_id AND a.retired_at IS NULL
      WHERE c.routing_id > $1 ORDER BY c.routing_id LIMIT $2`,
    [after, limit],
  );
  return found.rows.map((row) => ({ routingId: row.routingId, address: toAddress(row) }));
}

const toAddress = ({ channelId, installationId, accountId, channel }: AddressRow): Address => ({
  channelId,
  installationId,
  accountId,
  handshake: channel?.handshake === true ? (channel.handshakeOn ?? {}) : null,
});
