/** Rows of the blobs outside of DATA_DIR: in the database, or as objects whose keys the rows name. */
import { changeRows, findRow, findValue, hasRow, listRows, listValues, type Queryable } from '../postgres/rows.ts';

interface StoredBlob {
  readonly sizeBytes: number;
  /** Null: the blob is an object, or it is longer than asked for. */
  readonly content: Buffer | null;
  readonly objectKey: string | null;
}
interface BlobSize {
  readonly sizeBytes: number;
  /** The row holds the content compressed: PostgreSQL decompresses all bytes before a piece to read it. */
  readonly isCompressed: boolean;
}
/** Whether blobs are kept in rows or as objects: one that is kept in the other way is stored again. */
type Kept = 'rows' | 'objects';

const isKept = (kept: Kept): string => `state = 'stored' AND content IS ${kept === 'rows' ? 'NOT NULL' : 'NULL'}`;

/**
 * Null: it is missing, or its upload has not ended.
 *
 * @param maxBytes a longer content is left out: it is null, as is `objectKey`
 */
export const findStoredBlob = (db: Queryable, sha256: string, maxBytes: number): Promise<StoredBlob | null> =>
  findRow(
    db,
    // While blobs are moved to a bucket, a row has both, and the object may not be complete.
    `SELECT size_bytes::float8 AS "sizeBytes", CASE WHEN size_bytes <= $2 THEN content END AS content,
            CASE WHEN content IS NULL THEN object_key END AS "objectKey"
       FROM stored_blobs WHERE sha256 = $1 AND state <> 'storing'`,
    [sha256, maxBytes],
  );

/** As `findStoredBlob`, without the content. */
export const findBlobSize = (db: Queryable, sha256: string): Promise<BlobSize | null> =>
  findRow(
    db,
    `SELECT size_bytes::float8 AS "sizeBytes",
            coalesce(pg_column_size(content) < octet_length(content), false) AS "isCompressed"
       FROM stored_blobs WHERE sha256 = $1 AND state <> 'storing'`,
    [sha256],
  );

/** As `findStoredBlob`, with a piece of the content. */
export const findBlobPiece = (
  db: Queryable,
  sha256: string,
  start: number,
  bytes: number,
): Promise<StoredBlob | null> =>
  findRow(
    db,
    `SELECT size_bytes::float8 AS "sizeBytes", substring(content FROM $2::int FOR $3::int) AS content,
            object_key AS "objectKey"
       FROM stored_blobs WHERE sha256 = $1 AND state <> 'storing'`,
    [sha256, start + 1, bytes],
  );

/** Finds a row with a longer content. */
export const findLongRow = (
  db: Queryable,
  maxBytes: number,
): Promise<{ readonly sha256: string; readonly sizeBytes: number } | null> =>
  findRow(
    db,
    `SELECT sha256, size_bytes::float8 AS "sizeBytes" FROM stored_blobs
      WHERE size_bytes > $1 AND content IS NOT NULL LIMIT 1`,
    [maxBytes],
  );

export const isBlobStored = (db: Queryable, sha256: string, kept: Kept): Promise<boolean> =>
  hasRow(db, `SELECT 1 FROM stored_blobs WHERE sha256 = $1 AND ${isKept(kept)}`, [sha256]);

/** Makes the sweep spare a blob. False: it must be stored. */
export const touchBlob = async (db: Queryable, sha256: string, kept: Kept): Promise<boolean> =>
  (await changeRows(db, `UPDATE stored_blobs SET touched_at = now() WHERE sha256 = $1 AND ${isKept(kept)}`, [sha256])) >
  0;

/**
 * Makes the sweep spare blobs for another hour.
 *
 * @returns how many of them are stored
 */
export async function keepBlobs(db: Queryable, names: readonly string[], kept: Kept): Promise<number> {
  await db.query(
    // Most were stored just now: a row that is written again costs more than one that is read.
    `UPDATE stored_blobs SET touched_at = now()
      WHERE sha256 = ANY ($1) AND ${isKept(kept)} AND touched_at < now() - interval '10 minutes'`,
    [names],
  );
  const stored = `SELECT count(*)::int FROM stored_blobs WHERE sha256 = ANY ($1) AND ${isKept(kept)}`;
  return (await findValue<number>(db, stored, [names])) ?? 0;
}

export async function insertBlob(db: Queryable, sha256: string, content: Uint8Array): Promise<void> {
  await db.query(
    `INSERT INTO stored_blobs (sha256, size_bytes, content, state) VALUES ($1, $2, $3, 'stored')
     ON CONFLICT (sha256) DO UPDATE
       SET content = excluded.content, object_key = NULL, state = 'stored', touched_at = now()`,
    [sha256, content.byteLength, content],
  );
}

/**
 * Names the object that a blob will be, before it is uploaded: one that is left behind is found by its row.
 *
 * @returns this key, or that of another upload of the same blob, which is under way or has just ended
 */
export async function reserveObject(
  db: Queryable,
  sha256: string,
  sizeBytes: number,
  objectKey: string,
): Promise<string> {
  const reserved = await findValue<string>(
    db,
    // The sweep removes the old object of a blob that it is deleting. A blob that is stored can be read meanwhile.
    `INSERT INTO stored_blobs AS s (sha256, size_bytes, object_key, state) VALUES ($1, $2, $3, 'storing')
     ON CONFLICT (sha256) DO UPDATE
       SET object_key = CASE WHEN s.state = 'deleting' THEN excluded.object_key
                             ELSE coalesce(s.object_key, excluded.object_key) END,
           state = CASE WHEN s.state = 'stored' OR s.content IS NOT NULL THEN 'stored' ELSE 'storing' END,
           touched_at = now()
     RETURNING object_key`,
    [sha256, sizeBytes, objectKey],
  );
  return reserved ?? objectKey;
}

/**
 * Ends an upload. While the cluster keeps its blobs in the database, the upload is that of a move to a bucket: the content stays until
 * the whole move has ended, so that an interrupted one leaves the database complete.
 *
 * @returns false: a sweep gave the upload up meanwhile
 */
export const finishObject = async (db: Queryable, sha256: string, objectKey: string): Promise<boolean> =>
  (await changeRows(
    db,
    `UPDATE stored_blobs SET state = 'stored', touched_at = now(),
            content = CASE WHEN (SELECT blob_store FROM cluster) = 'database' THEN content END
      WHERE sha256 = $1 AND object_key = $2 AND state <> 'deleting'`,
    [sha256, objectKey],
  )) > 0;

/** Rows whose contents one statement removes. A gigabyte of them took 3 s, and a statement may take 30. */
const CONTENTS_REMOVED = 1_000;

/** Removes the contents of blobs whose objects are complete. */
export async function deleteContents(tx: Queryable, names: readonly string[]): Promise<void> {
  for (let start = 0; start < names.length; start += CONTENTS_REMOVED)
    await tx.query('UPDATE stored_blobs SET content = NULL WHERE sha256 = ANY ($1) AND object_key IS NOT NULL', [
      names.slice(start, start + CONTENTS_REMOVED),
    ]);
}

/** Deletes the rows of all blobs. */
export async function deleteBlobRows(tx: Queryable): Promise<void> {
  const remove = 'DELETE FROM stored_blobs WHERE sha256 IN (SELECT sha256 FROM stored_blobs LIMIT $1)';
  while ((await changeRows(tx, remove, [CONTENTS_REMOVED])) === CONTENTS_REMOVED);
}

/** A page of blobs that nothing touched since, also of uploads that did not end. */
export const listUntouched = (db: Queryable, before: number, after: string, limit: number): Promise<string[]> =>
  listValues(
    db,
    `SELECT sha256 FROM stored_blobs WHERE touched_at < to_timestamp($1 / 1000.0) AND sha256 > $2
      ORDER BY sha256 LIMIT $3`,
    [before, after, limit],
  );

interface CondemnedBlob {
  readonly sha256: string;
  readonly objectKey: string | null;
}

/** Marks blobs for removal: a later publish stores them again. One that was touched meanwhile stays. */
export const condemnBlobs = (db: Queryable, names: readonly string[], before: number): Promise<CondemnedBlob[]> =>
  listRows(
    db,
    // The row of an object in a bucket that is not used stays, to name the object. It needs no content.
    `UPDATE stored_blobs SET state = 'deleting', content = CASE WHEN object_key IS NULL THEN content END
      WHERE sha256 = ANY ($1) AND touched_at < to_timestamp($2 / 1000.0)
     RETURNING sha256, object_key AS "objectKey"`,
    [names, before],
  );

export const deleteCondemned = (db: Queryable, { sha256, objectKey }: CondemnedBlob): Promise<number> =>
  changeRows(
    db,
    `DELETE FROM stored_blobs WHERE sha256 = $1 AND object_key IS NOT DISTINCT FROM $2 AND state = 'deleting'`,
    [sha256, objectKey],
  );

export const hasStoredBlobs = (db: Queryable): Promise<boolean> => hasRow(db, 'SELECT 1 FROM stored_blobs LIMIT 1');
