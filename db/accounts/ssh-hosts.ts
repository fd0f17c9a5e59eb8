/** The SSH hosts that accounts added. Logins are sealed like secrets, and opened only to connect. */
import { randomUUIDv7 } from 'node:crypto';
import type { Pool } from 'pg';
import type { SecretKeys } from '../files/secrets.ts';
import type { Page } from '../postgres/cursors.ts';
import type { Transaction } from '../postgres/pool.ts';
import { changeRows, findRow, listRows, type PageQuery, type Queryable, readPositionPage } from '../postgres/rows.ts';
import { lockAccount } from './accounts.ts';
import { throwQuotaProblem } from './usage.ts';

export interface SshLogin {
  readonly privateKey?: string;
  readonly passphrase?: string;
  readonly password?: string;
}
interface SshHostFields {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly user: string;
  /** Accepted fingerprints; empty: no connection is made. */
  readonly hostKeys: string[];
}
export interface SshHostRow extends SshHostFields {
  readonly id: string;
  readonly login: 'key' | 'password';
  /** Another one after each change. */
  readonly revision: string;
  readonly testedAt: string | null;
  /** Why the last test failed; null: it succeeded, or the host was never tested. */
  readonly testFault: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly position: string;
}
interface SshHostKey {
  readonly accountId: string;
  readonly hostId: string;
}

const HOST = `id, name, address, port, user_name AS "user", host_keys AS "hostKeys", login, revision,
  tested_at AS "testedAt", test_fault AS "testFault", created_at AS "createdAt", updated_at AS "updatedAt",
  position::text AS position`;

/** Oldest first. */
export const listSshHosts = (db: Queryable, accountId: string): Promise<SshHostRow[]> =>
  listRows(db, `SELECT ${HOST} FROM ssh_hosts WHERE account_id = $1 ORDER BY position`, [accountId]);

/** Oldest first. */
export const pageSshHosts = (db: Queryable, accountId: string, query: PageQuery): Promise<Page<SshHostRow>> =>
  readPositionPage<SshHostRow>(
    db,
    `SELECT ${HOST} FROM ssh_hosts WHERE account_id = $1 AND position > $2 ORDER BY position LIMIT $3`,
    [accountId],
    query,
  );

export const findSshHost = (db: Queryable, { accountId, hostId }: SshHostKey): Promise<SshHostRow | null> =>
  findRow(db, `SELECT ${HOST} FROM ssh_hosts WHERE account_id = $1 AND id = $2`, [accountId, hostId]);

/** @returns null: the account has `maxHosts` hosts, or one with this id @throws Problem `quota_exceeded` */
export async function insertSshHost(
  tx: Transaction,
  keys: SecretKeys,
  { accountId, hostId }: SshHostKey,
  { name, address, port, user, hostKeys, login }: SshHostFields & { readonly login: SshLogin },
  maxHosts: number,
): Promise<SshHostRow | null> {
  const { keyId, sealed } = await keys.seal(nameOwner(accountId), hostId, JSON.stringify(login), tx);
  await lockAccount(tx, accountId);
  return findRow<SshHostRow>(
    tx,
    `INSERT INTO ssh_hosts (account_id, id, revision, name, address, port, user_name, host_keys, login, key_id, sealed)
     SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11
      WHERE (SELECT count(*) FROM ssh_hosts WHERE account_id = $1) < $12
     ON CONFLICT DO NOTHING RETURNING ${HOST}`,
    [accountId, hostId, randomUUIDv7(), name, address, port, user, hostKeys, nameLogin(login), keyId, sealed, maxHosts],
  ).catch(throwQuotaProblem);
}

/**
 * Replaces the fields of a host, and its login if one is given.
 *
 * @param revision of the host as the caller knows it
 * @returns null: it was changed or removed meanwhile
 */
export async function updateSshHost(
  db: Queryable,
  keys: SecretKeys,
  { accountId, hostId, revision }: SshHostKey & { readonly revision: string },
  { name, address, port, user, hostKeys, login }: SshHostFields & { readonly login?: SshLogin | undefined },
): Promise<SshHostRow | null> {
  const seal = login && (await keys.seal(nameOwner(accountId), hostId, JSON.stringify(login), db));
  return findRow<SshHostRow>(
    db,
    `UPDATE ssh_hosts SET name = $4, address = $5, port = $6, user_name = $7, host_keys = $8, revision = $9,
            login = coalesce($10, login), key_id = coalesce($11, key_id), sealed = coalesce($12, sealed),
            tested_at = NULL, test_fault = NULL, updated_at = now()
      WHERE account_id = $1 AND id = $2 AND revision = $3 RETURNING ${HOST}`,
    [
      accountId,
      hostId,
      revision,
      name,
      address,
      port,
      user,
      hostKeys,
      randomUUIDv7(),
      login ? nameLogin(login) : null,
      seal?.keyId ?? null,
      seal?.sealed ?? null,
    ],
  );
}

export const deleteSshHost = async (db: Queryable, { accountId, hostId }: SshHostKey): Promise<boolean> =>
  (await changeRows(db, 'DELETE FROM ssh_hosts WHERE account_id = $1 AND id = $2', [accountId, hostId])) > 0;

/** Notes the outcome of a test, unless the host was changed meanwhile. */
export const saveSshTest = (
  db: Queryable,
  { accountId, hostId, revision }: SshHostKey & { readonly revision: string },
  fault: string | null,
): Promise<SshHostRow | null> =>
  findRow(
    db,
    `UPDATE ssh_hosts SET tested_at = now(), test_fault = $4
      WHERE account_id = $1 AND id = $2 AND revision = $3 RETURNING ${HOST}`,
    [accountId, hostId, revision, fault],
  );

/** Opens the login of a host, only to connect. Null: the host was changed since that revision, or removed. */
export async function readSshLogin(
  pool: Pool,
  keys: SecretKeys,
  { accountId, hostId, revision }: SshHostKey & Pick<SshHostRow, 'revision'>,
): Promise<SshLogin | null> {
  const row = await findRow<{ keyId: string; sealed: Buffer }>(
    pool,
    'SELECT key_id AS "keyId", sealed FROM ssh_hosts WHERE account_id = $1 AND id = $2 AND revision = $3',
    [accountId, hostId, revision],
  );
  return row && (JSON.parse(await keys.open(nameOwner(accountId), hostId, row)) as SshLogin);
}

/** Returns the name of the owner in the view `sealed_values`. */
const nameOwner = (accountId: string): string => `ssh:${accountId}`;

const nameLogin = ({ password }: SshLogin): SshHostRow['login'] => (password === undefined ? 'key' : 'password');
