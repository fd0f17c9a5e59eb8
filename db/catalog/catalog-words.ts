/**
 * Removes the words of the catalog that no title has any more. The triggers of `plugins` add words. Fills the words of plugins again
 * when an upgrade has changed how texts are split into words.
 */
import type { Pool } from 'pg';
import { isLockRefused } from '../postgres/database-errors.ts';
import { inTransaction } from '../postgres/pool.ts';
import { changeRows, listRows } from '../postgres/rows.ts';
import { LISTED } from './catalog.ts';

/** Words looked at by one statement. */
const BATCH = 1_000;
/** Plugins whose words one statement compares. */
const COMPARED_BATCH = 100;
/** Plugins that are listed meanwhile wait behind the sweep, so it gives up soon. The next one tries again. */
const LOCK_TIMEOUT = '1s';
/** A count, because for EXISTS PostgreSQL might read all plugins instead of the index of their words. */
const IS_UNUSED = `(SELECT count(*) FROM plugins p
  WHERE ${LISTED} AND p.title_words @@ array_to_tsvector(ARRAY[c.word])::text::tsquery) = 0`;

interface CatalogWord {
  readonly word: string;
  readonly isUnused: boolean;
}

/** The words that the trigger of `plugins` would fill in. Those of the readme are not compared: that would take too long. */
const LIST_OUTDATED = `SELECT p.id, p.summary_words <> strip(to_tsvector('english', plain_words(concat_ws(' ',
    lower(plain_words(p.slug || ' ' || p.display_name)), p.description,
    (SELECT v.manifest ->> 'description' FROM versions v WHERE v.id = p.latest_version_id))))) AS "isOutdated"
  FROM (SELECT * FROM plugins WHERE id > $1 ORDER BY id LIMIT ${COMPARED_BATCH}) p ORDER BY p.id`;

/**
 * A plugin whose readme alone has other words gets them with its next version. Each plugin is a transaction: two that add the same
 * words in another order would deadlock.
 */
export async function refillPluginWords(pool: Pool): Promise<void> {
  let after: string | undefined = '';
  while (after !== undefined) {
    const plugins: { id: string; isOutdated: boolean }[] = await listRows(pool, LIST_OUTDATED, [after]);
    for (const { id } of plugins.filter(({ isOutdated }) => isOutdated))
      await changeRows(pool, 'UPDATE plugins SET display_name = display_name WHERE id = $1', [id]);
    after = plugins.length === COMPARED_BATCH ? plugins.at(-1)?.id : undefined;
  }
}

/** Searches and listings continue meanwhile. Listings wait only while words are deleted. */
export async function sweepCatalogWords(pool: Pool): Promise<void> {
  let after: string | undefined = '';
  while (after !== undefined) {
    const words: CatalogWord[] = await listRows<CatalogWord>(
      pool,
      `SELECT c.word, ${IS_UNUSED} AS "isUnused"
         FROM (SELECT word FROM catalog_words WHERE word > $1 ORDER BY word LIMIT ${BATCH}) c ORDER BY c.word`,
      [after],
    );
    await deleteUnused(
      pool,
      words.filter(({ isUnused }) => isUnused).map(({ word }) => word),
    );
    after = words.length === BATCH ? words.at(-1)?.word : undefined;
  }
}

async function deleteUnused(pool: Pool, words: readonly string[]): Promise<void> {
  if (words.length === 0) return;
  const deleting = inTransaction(pool, async (tx) => {
    await tx.query(`SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`);
    // A transaction that lists a plugin has added its words already, but others do not see the plugin yet.
    await tx.query('LOCK TABLE catalog_words IN SHARE ROW EXCLUSIVE MODE');
    await changeRows(tx, `DELETE FROM catalog_words c WHERE c.word = ANY ($1) AND ${IS_UNUSED}`, [words]);
  });
  await deleting.catch((error: unknown) => {
    if (!isLockRefused(error)) throw error;
  });
}
