/** Suggests words from titles in the catalog for misspelt words of a query. */
import type { Transaction } from '../postgres/pool.ts';
import { OWN_PLUGINS } from './catalog.ts';
import { countEdits, maxEdits } from './edit-distance.ts';

/** Trigram similarity of candidates. Low, because one transposition in six letters changes most trigrams. */
export const SIMILARITY_MIN = 0.25;
/** Number of candidates whose edit distance is computed, the most similar first. */
const CANDIDATES_MAX = 100;
/** Number of suggestions for one word. All have the same edit distance. */
const SUGGESTIONS_MAX = 3;

/**
 * Returns for each term the nearest words in the titles of listed plugins and of the account's own; none if no word is near.
 *
 * @param terms lower case; the last one may be unfinished
 * @param tx has `pg_trgm.word_similarity_threshold` set to `SIMILARITY_MIN`
 */
export async function suggestWords(tx: Transaction, accountId: string, terms: readonly string[]): Promise<string[][]> {
  const longTerms = terms.filter((term) => maxEdits(term) > 0);
  if (longTerms.length === 0) return terms.map(() => []);
  const found = await tx.query<{ term: string; word: string }>(
    `SELECT t.term, near.word FROM unnest($2::text[]) AS t (term) CROSS JOIN LATERAL (
       SELECT word FROM (
         SELECT c.word FROM catalog_words c WHERE t.term <% c.word
         UNION SELECT unnest(tsvector_to_array(p.title_words)) FROM ${OWN_PLUGINS} p WHERE t.term <% p.title) known
       ORDER BY similarity(t.term, word) DESC, word LIMIT ${CANDIDATES_MAX}) near`,
    [accountId, longTerms],
  );
  return terms.map((term, at) => {
    const words = found.rows.filter((row) => row.term === term).map(({ word }) => word);
    return findNearest(term, words, at === terms.length - 1);
  });
}

function findNearest(term: string, words: readonly string[], isPrefix: boolean): string[] {
  const candidates = words.map((word) => ({ word, edits: countEdits(term, word, isPrefix) }));
  const fewest = Math.min(maxEdits(term), ...candidates.map(({ edits }) => edits));
  const nearest = candidates.filter(({ edits }) => edits === fewest);
  return nearest.slice(0, SUGGESTIONS_MAX).map(({ word }) => word);
}
