/**
 * The row that says what all processes of a database have in common. A process compares it with its own keys, blobs and
 * release before it creates anything, and starts only if they are the same.
 */
import { randomUUID } from 'node:crypto';
import type { Pool } from 'pg';
import { recordAction } from '../accounts/operator-actions.ts';
import { BlobStoreUnavailableError } from '../files/blob-errors.ts';
import { type BlobPlace, openBlobFolder } from '../files/blob-mark.ts';
import type { KeyStore } from '../files/key-files.ts';
import {
  acceptKeys,
  adoptKeyFiles,
  deleteRevokedKeyFiles,
  findKeyMismatch,
  hasRecordedKeys,
  type KeyPlaces,
  recordKeys,
} from '../files/recorded-keys.ts';
import { deleteBlobRows, deleteContents } from '../files/stored-blobs.ts';
import { isMissingObject } from '../postgres/database-errors.ts';
import { listUnknownMigrations } from '../postgres/migrate.ts';
import { inLockedTransaction, inTransaction } from '../postgres/pool.ts';
import { findRow, hasRow, type Queryable } from '../postgres/rows.ts';

/** A process that belongs to a cluster, or wants to. */
export interface Member extends KeyPlaces {
  readonly release: string;
  readonly blobs: BlobPlace;
}
interface ClusterRow {
  readonly id: string;
  readonly release: string;
  readonly blobStore: string;
  readonly blobsMarked: boolean;
  /** Null: keys are files. */
  readonly keyFingerprint: string | null;
}

/** This process does not belong to the cluster of its database. */
export class ClusterMismatchError extends Error {
  override readonly name = 'ClusterMismatchError';
}

const CLUSTER_LOCK = 'cluster';
/** How the operator says that the folder is meant. */
const ACCEPT = 'If this folder is meant, run npm run -s operator -- accept-data-dir.';

/**
 * Call it before keys and blobs are opened, which creates missing ones.
 *
 * @returns why the mark of the blobs could not be read: compare it with `requireOwnBlobs` before the blobs are used. Null: it fits.
 * @throws ClusterMismatchError with one sentence
 */
export async function requireCluster(pool: Pool, member: Member): Promise<BlobStoreUnavailableError | null> {
  const unread = await compareWithCluster(pool, member);
  await deleteRevokedKeyFiles(pool, member);
  await adoptKeyFiles(pool, member);
  return unread;
}

/** Changes nothing. @returns why the mark of the blobs could not be read. @throws ClusterMismatchError with one sentence */
async function compareWithCluster(pool: Pool, member: Member): Promise<BlobStoreUnavailableError | null> {
  await requireKnownMigrations(pool, member.release);
  const row = await readClusterRow(pool);
  requireClusterKey(row, member.keys.fingerprint);
  const mismatch = await findKeyMismatch(pool, member);
  if (mismatch !== null) throw new ClusterMismatchError(`${mismatch}. ${ACCEPT}`);
  // Another process may make the cluster now: its mark must not be read beside the missing row.
  if (row === null) await inClusterLock(pool, (tx) => requireOwnBlobs(tx, member.blobs));
  else
    try {
      await requireBlobs(pool, row, member.blobs);
    } catch (error) {
      // An outage of the bucket must not become one of webhooks and sessions, which do without it.
      if (row.blobsMarked && error instanceof BlobStoreUnavailableError) return error;
      throw error;
    }
  return null;
}

/** @throws ClusterMismatchError with one sentence, or BlobStoreUnavailableError */
export const requireOwnBlobs = async (db: Queryable, blobs: BlobPlace): Promise<void> =>
  requireBlobs(db, await readClusterRow(db), blobs);

/** Says why the blobs of this place are not those of this cluster. Null: they are. @throws BlobStoreUnavailableError */
export const findBlobMismatch = (pool: Pool, blobs: BlobPlace): Promise<string | null> =>
  describeMismatch(() => requireOwnBlobs(pool, blobs));

const inClusterLock = (pool: Pool, work: (tx: Queryable) => Promise<void>): Promise<void> =>
  inLockedTransaction(pool, CLUSTER_LOCK, work);

/** Says why `requireCluster` refuses this process. Null: it does not. @throws BlobStoreUnavailableError */
export const findClusterMismatch = (pool: Pool, member: Member): Promise<string | null> =>
  describeMismatch(async () => {
    const unread = await compareWithCluster(pool, member);
    if (unread !== null) throw unread;
  });

/**
 * Says what `DATA_DIR` lacks of the keys and blobs that this cluster keeps as files. Needs neither the cluster key nor the bucket.
 * Null: it lacks none.
 */
export const findDataDirMismatch = (pool: Pool, places: Omit<KeyPlaces, 'keys'>): Promise<string | null> =>
  describeMismatch(async () => {
    const row = await readClusterRow(pool);
    const mismatch = row?.keyFingerprint ? null : await findKeyMismatch(pool, { ...places, keys: places.keyFiles });
    if (mismatch !== null) throw new ClusterMismatchError(`${mismatch}.`);
    if (row === null || row.blobStore === 'files') await requireBlobs(pool, row, openBlobFolder(places.dataDir));
  });

async function describeMismatch(compare: () => Promise<void>): Promise<string | null> {
  try {
    await compare();
    return null;
  } catch (error) {
    if (!(error instanceof ClusterMismatchError)) throw error;
    return error.message.replace(` ${ACCEPT}`, '');
  }
}

/**
 * `requireCluster` for a command. A service may be the first process with a cluster key and records which one it is. A command may not:
 * it would seal the key files under that key, and processes with another key, or without one, could not open them.
 *
 * @throws ClusterMismatchError also when these keys are sealed and the processes of this database use key files
 */
export async function requireClusterForCommand(pool: Pool, member: Member): Promise<BlobStoreUnavailableError | null> {
  await requireStartWithClusterKey(pool, member.keys);
  return requireCluster(pool, member);
}

async function requireStartWithClusterKey(pool: Pool, { fingerprint }: KeyStore): Promise<void> {
  const expected = (await readClusterRow(pool))?.keyFingerprint ?? null;
  if (fingerprint === null || expected !== null) return;
  throw new ClusterMismatchError(
    'This command has a cluster key, but no process of this database has started with one, so none could open a key that this command seals. Start the service once with the cluster key, then run this again. No key was sealed.',
  );
}

function requireClusterKey(row: ClusterRow | null, fingerprint: string | null): void {
  const expected = row?.keyFingerprint ?? null;
  if (expected === null || expected === fingerprint) return;
  throw new ClusterMismatchError(
    fingerprint === null
      ? `The keys of this cluster are sealed in its database: set CLUSTER_KEY_FILE, CLUSTER_KEY_COMMAND or CLUSTER_KEY to the key that opens them (fingerprint ${expected}).`
      : `The cluster key that is set (fingerprint ${fingerprint}) is not that of this cluster (fingerprint ${expected}): set CLUSTER_KEY_FILE, CLUSTER_KEY_COMMAND or CLUSTER_KEY to the key that opens the keys in the database.`,
  );
}

/**
 * Records what is new: the first process of a database makes its cluster. Call it after the keys were opened.
 *
 * @param isMarkRead whether `requireCluster` could read the mark of the blobs
 * @throws ClusterMismatchError when another process made another cluster meanwhile
 */
export async function recordMember(pool: Pool, member: Member, isMarkRead = true): Promise<void> {
  await recordKeys(pool, member.keys);
  await inClusterLock(pool, async (tx) => {
    const row = await readClusterRow(tx);
    requireClusterKey(row, member.keys.fingerprint);
    if (isMarkRead) await requireBlobs(tx, row, member.blobs);
    else requireBlobStore(row, member.blobs);
    await saveCluster(tx, member);
  });
  if (!isMarkRead) return;
  // The row is committed before the mark is written: a mark without a row would be that of another cluster.
  await inClusterLock(pool, async (tx) => {
    await requireOwnBlobs(tx, member.blobs);
    await markBlobs(tx, member.blobs);
  });
}

/** Makes the keys and blobs of this process those of the database. */
export async function acceptMember(pool: Pool, member: Member): Promise<void> {
  await acceptKeys(pool, member.keys);
  await saveCluster(pool, member);
  await markBlobs(pool, member.blobs);
}

/** @throws ClusterMismatchError when the place holds the blobs of another cluster */
export async function markNewPlace(pool: Pool, place: BlobPlace): Promise<void> {
  const row = await readClusterRow(pool);
  const mark = await place.readMark();
  if (row === null) throw new ClusterMismatchError('The database has no cluster yet: start the service once.');
  if (mark !== null && mark !== row.id)
    throw new ClusterMismatchError(`${place.description} holds the packages of another cluster (${mark}).`);
  await place.writeMark(row.id);
}

/**
 * From now on processes start only with this place. In one transaction: if it is interrupted, the old place still has every blob, and
 * no row stays behind that names an object which may be gone when blobs come back. The list of actions has the move if it was made.
 *
 * @param copied names of the blobs that this move has stored in the place
 * @param requireStopped rejects if a process may have stored other blobs in the old place meanwhile: then nothing is changed
 */
export function setBlobPlace(
  pool: Pool,
  { store }: BlobPlace,
  copied: readonly string[],
  requireStopped: () => Promise<void>,
): Promise<void> {
  return inTransaction(pool, async (tx) => {
    if (store === 'files') await deleteBlobRows(tx);
    else if (store !== 'database') await deleteContents(tx, copied);
    await tx.query('UPDATE cluster SET blob_store = $1, blobs_marked = true', [store]);
    await recordAction(tx, { action: 'move-blobs', subject: store });
    // Last, because the statements before may take minutes.
    await requireStopped();
  });
}

/** Two neighbouring releases run side by side during an update. Older ones do not know the tables. */
async function requireKnownMigrations(pool: Pool, release: string): Promise<void> {
  const unknown = await listUnknownMigrations(pool).catch((error: unknown) => {
    if (!isMissingObject(error)) throw error;
    throw new ClusterMismatchError(
      'The database has no tables yet: run sh deploy/node.sh deploy/migrate.ts with this DATABASE_URL, then start again.',
    );
  });
  if (unknown.every(({ isLastUpgrade }) => isLastUpgrade)) return;
  const newest = (await readClusterRow(pool))?.release;
  const other = newest === undefined || newest === release ? 'a newer release' : `release ${newest}`;
  throw new ClusterMismatchError(
    `This is release ${release}, but ${other} has migrated the database (${unknown.map(({ name }) => name).join(', ')}): start that release, or restore a backup of this one.`,
  );
}

function requireBlobStore(row: ClusterRow | null, { store }: BlobPlace): void {
  if (row === null || row.blobStore === store) return;
  throw new ClusterMismatchError(
    `The blobs of this cluster are in ${row.blobStore}, not in ${store}: set BLOBS=${row.blobStore}, or stop the service and run npm run -s operator -- move-blobs.`,
  );
}

async function requireBlobs(db: Queryable, row: ClusterRow | null, blobs: BlobPlace): Promise<void> {
  const { description, setting } = blobs;
  requireBlobStore(row, blobs);
  const mark = await blobs.readMark();
  if (mark !== null && mark === row?.id) return;
  if (mark !== null && row !== null)
    throw new ClusterMismatchError(
      `${description} holds the packages of another cluster (${mark}, not ${row.id}): set ${setting} and DATABASE_URL to those of one cluster. ${ACCEPT}`,
    );
  const isNamed = await hasVersions(db);
  const hasBlobs = await blobs.hasBlobs();
  if (mark === null && (row?.blobsMarked === true || (hasBlobs === null && isNamed)))
    throw new ClusterMismatchError(
      `${description} has no packages, but this database ${isNamed ? 'names some' : 'had such a place'}: set ${setting} to the place of its packages, or restore them from a backup. ${ACCEPT}`,
    );
  // Its packages would be removed as unused.
  if (mark !== null || (hasBlobs === true && !isNamed && !(await hasRecordedKeys(db))))
    throw new ClusterMismatchError(
      `${description} holds packages, but this database is empty: set DATABASE_URL to the database of these packages, or ${setting} to a new place. ${ACCEPT}`,
    );
}

async function saveCluster(db: Queryable, { release, blobs, keys }: Member): Promise<void> {
  const isNewest = (await listUnknownMigrations(db)).length === 0;
  await db.query(
    `INSERT INTO cluster (id, release, blob_store, key_fingerprint) VALUES ($1, $2, $3, $5)
     ON CONFLICT (only_row) DO UPDATE
       SET release = CASE WHEN $4 THEN excluded.release ELSE cluster.release END, blob_store = excluded.blob_store,
           key_fingerprint = excluded.key_fingerprint`,
    [randomUUID(), release, blobs.store, isNewest, keys.fingerprint],
  );
}

async function markBlobs(db: Queryable, blobs: BlobPlace): Promise<void> {
  const row = await readClusterRow(db);
  if (row === null) return;
  if ((await blobs.readMark()) !== row.id) await blobs.writeMark(row.id);
  await db.query('UPDATE cluster SET blobs_marked = true WHERE NOT blobs_marked');
}

const readClusterRow = (db: Queryable): Promise<ClusterRow | null> =>
  findRow(
    db,
    `SELECT id, release, blob_store AS "blobStore", blobs_marked AS "blobsMarked", key_fingerprint AS "keyFingerprint"
       FROM cluster`,
  );

const hasVersions = (db: Queryable): Promise<boolean> =>
  hasRow(db, `SELECT 1 FROM versions WHERE bundle_sha256 <> '' LIMIT 1`);
