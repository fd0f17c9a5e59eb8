/** The words of the catalog's titles, and which of them a misspelt one may have meant. */

import type { Transaction } from '../postgres/pool.ts';
import { OWN } from './catalog.ts';
import { countEdits, maxEdits } from './edit-distance.ts';

/** Share of trigrams that a word has in common with what was typed, to be looked at: two letters swapped in six change most. */
export const SIMILARITY_MIN = 0.25;
/** Words that are compared letter by letter, the most alike first. */
const COMPARED_MAX = 100;
/** Words that one may have meant, all of them equally near. */
const MEANT_MAX = 3;

/**
 * What each of some words may have meant: the nearest words of listed titles and of the account's own. Empty for one that is
 * near none.
 *
 * @param terms lower case; the last one may be unfinished
 * @param tx has `pg_trgm.word_similarity_threshold` set to `SIMILARITY_MIN`
 */
export async function suggestWords(tx: Transaction, accountId: string, terms: readonly string[]): Promise<string[][]> {
  const asked = terms.filter((term) => maxEdits(term) > 0);
  if (asked.length === 0) return terms.map(() => []);
  const found = await tx.query<{ term: string; word: string }>(
    `SELECT t.term, near.word FROM unnest($2::text[]) AS t (term) CROSS JOIN LATERAL (
       SELECT word FROM (
         SELECT c.word FROM catalog_words c WHERE t.term <% c.word
         UNION SELECT unnest(tsvector_to_array(p.title_words)) FROM plugins p WHERE ${OWN} AND t.term <% p.title) known
       ORDER BY similarity(t.term, word) DESC, word LIMIT ${COMPARED_MAX}) near`,
    [accountId, asked],
  );
  return terms.map((term, at) => {
    const words = found.rows.filter((row) => row.term === term).map(({ word }) => word);
    return nearest(term, words, at === terms.length - 1);
  });
}

function nearest(term: string, words: readonly string[], begun: boolean): string[] {
  const compared = words.map((word) => ({ word, errors: countEdits(term, word, begun) }));
  const fewest = Math.min(maxEdits(term), ...compared.map(({ errors }) => errors));
  const meant = compared.filter(({ errors }) => errors === fewest);
  return meant.slice(0, MEANT_MAX).map(({ word }) => word);
}
