/**
 * Searching the catalog. Better matches come first: the very slug or name, then words of slug and name, of the
 * description, of the readme; among equals the more installed, then by slug. Only where nothing matches, the words are taken
 * for misspelt ones and what they may have meant is searched.
 */
import type { Pool } from 'pg';
import { Problem } from '../../sdk/contract/errors.ts';
import { decodeCursor, encodeCursor, type Page } from '../postgres/cursors.ts';
import { inTransaction, type Transaction } from '../postgres/pool.ts';
import { LISTED, OWN } from './catalog.ts';
import { type PageQuery, PLUGIN_COLUMNS, type Plugin } from './plugins.ts';
import { SIMILARITY_MIN, suggestWords } from './spelling-suggestions.ts';

/** Words of a query that are looked at. */
const TERMS_MAX = 8;
/** Shorter beginnings of a word stand in nearly every readme: they are looked for as whole words there. Characters. */
const PREFIX_MIN_CHARS = 3;
/**
 * Matches that are gathered by a word's index and then put in order. Of a word that more plugins have, the first are found
 * sooner by looking through them in order.
 */
const GATHERED_MAX = 2_000;
/** What misspelt words find at most: they are guesses, and have no further pages. */
const GUESSES_MAX = 20;

/** What a query looks for. */
interface Wanted {
  /** The words as a slug. */
  readonly slug: string;
  /** As it was typed. */
  readonly name: string;
  /** `to_tsquery` for titles: every word, the last one or its beginning. */
  readonly title: string;
  /** The same for prose. */
  readonly prose: string;
  /** The words alone. */
  readonly terms: readonly string[];
}
/**
 * The kinds of match, best first. Each may use the values of the ones before it: `$5` to `$8`.
 *
 * `walked` plugins are looked through in order before a word's index is asked: enough for a page of a word that every
 * twentieth has, whose index entries alone would take longer to read. Readmes are long, and hold most common words.
 */
const TIERS = [
  {
    condition: '(p.slug = $5 OR lower(p.display_name) = $6)',
    valuesOf: ({ slug, name }: Wanted) => [slug, name],
    walked: 0,
  },
  { condition: `p.title_words @@ to_tsquery('simple', $7)`, valuesOf: ({ title }: Wanted) => [title], walked: 600 },
  { condition: `p.summary_words @@ to_tsquery('english', $8)`, valuesOf: ({ prose }: Wanted) => [prose], walked: 400 },
  { condition: `p.readme_words @@ to_tsquery('english', $8)`, valuesOf: () => [], walked: 200 },
] as const;

/** Where a page begins: after this row of this tier. */
interface Place {
  readonly tier: number;
  readonly rank: number;
  readonly slug: string;
}
interface Hit extends Plugin {
  readonly rank: number;
  /** There are too many to gather: these are not surely the first. */
  readonly tooMany: boolean;
}
const START: Place = { tier: 0, rank: -32_768, slug: '' };

/** One page of what a text finds for an account. */
export async function searchCatalog(
  pool: Pool,
  accountId: string,
  text: string,
  query: PageQuery,
): Promise<Page<Plugin>> {
  const place = readPlace(query.cursor);
  const wanted = wantedBy(text);
  if (!wanted) return { items: [], nextCursor: null };
  return inTransaction(pool, async (tx) => {
    // How common a beginning of a word is, the planner cannot know: it is kept from reading every readme by a wrong guess.
    await tx.query(
      `SELECT set_config('enable_seqscan', 'off', true), set_config('pg_trgm.word_similarity_threshold', $1, true)`,
      [String(SIMILARITY_MIN)],
    );
    const page = await readTiers(tx, accountId, wanted, query.limit, place);
    if (page.items.length > 0 || query.cursor) return page;
    const meant = wantedInstead(wanted, await suggestWords(tx, accountId, wanted.terms));
    if (!meant) return page;
    const guesses = await readTiers(tx, accountId, meant, Math.min(query.limit, GUESSES_MAX), START);
    return { items: guesses.items, nextCursor: null };
  });
}

async function readTiers(
  tx: Transaction,
  accountId: string,
  wanted: Wanted,
  limit: number,
  place: Place,
): Promise<Page<Plugin>> {
  const items: Plugin[] = [];
  for (let from = place; from.tier < TIERS.length; from = { ...START, tier: from.tier + 1 }) {
    const left = limit - items.length;
    const hits = await readTier(tx, accountId, wanted, from, left + 1);
    const taken = hits.slice(0, left);
    items.push(...taken);
    // One more than fits, be it of this tier or the next, says that there is another page.
    if (hits.length > left) return { items, nextCursor: writePlace(taken.at(-1) ?? from, from.tier) };
  }
  return { items, nextCursor: null };
}

/** The words of a query. Null: it has none. */
function wantedBy(text: string): Wanted | null {
  const words = text.normalize('NFKC').toLowerCase();
  const terms = (words.match(/[\p{L}\p{M}\p{N}]+/gu) ?? []).slice(0, TERMS_MAX);
  if (terms.length === 0) return null;
  // Only the last word may be unfinished: a beginning costs the index all words that begin so.
  const last = terms.length - 1;
  const begun = (term: string, at: number, fromChars: number) =>
    at === last && term.length >= fromChars ? `${term}:*` : term;
  return {
    slug: terms.join('-'),
    name: words.trim(),
    title: terms.map((term, at) => begun(term, at, 1)).join(' & '),
    prose: terms.map((term, at) => begun(term, at, PREFIX_MIN_CHARS)).join(' & '),
    terms,
  };
}

/**
 * The same with what its words may have meant, each beside the word as it was typed: that may be a right one which only
 * stands in no title. Null: none may have meant another.
 */
function wantedInstead(wanted: Wanted, meant: readonly (readonly string[])[]): Wanted | null {
  const isNew = wanted.terms.some((term, at) => meant[at]?.some((word) => word !== term));
  if (!isNew) return null;
  const either = wanted.terms.map(
    (term, at) => `(${[...new Set([term, ...(meant[at] ?? [])])].map(quoted).join('|')})`,
  );
  const query = either.join(' & ');
  return { ...wanted, title: query, prose: query };
}

/** A word for `to_tsquery`, whatever it holds. */
const quoted = (word: string): string => `'${word.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;

/** Rows of one tier that no better tier has, after a place. */
async function readTier(tx: Transaction, accountId: string, wanted: Wanted, from: Place, rows: number): Promise<Hit[]> {
  const tiers = TIERS.slice(0, from.tier + 1);
  const matches = tiers
    .map(({ condition }, tier) => (tier === from.tier ? condition : `NOT ${condition}`))
    .join(' AND ');
  const values = [accountId, from.rank, from.slug, rows, ...tiers.flatMap(({ valuesOf }) => valuesOf(wanted))];
  const found = `${matches} AND (p.install_rank, p.slug) > ($2, $3)`;
  const part = (seen: string) => `SELECT p.id, p.install_rank, p.slug FROM plugins p WHERE ${seen} AND ${found}`;
  const inOrder = 'ORDER BY install_rank, slug LIMIT $4';
  const select = (listed: string, tooMany: string) =>
    `SELECT ${PLUGIN_COLUMNS}, p.install_rank AS rank, ${tooMany} AS "tooMany"
       FROM (${listed} UNION ALL (${part(OWN)} ${inOrder}) ${inOrder}) seen
       JOIN plugins p ON p.id = seen.id JOIN accounts o ON o.id = p.owner_id ORDER BY p.install_rank, p.slug`;
  const gathered = await tx.query<Hit>(
    `WITH walked AS MATERIALIZED (
       SELECT p.id, p.install_rank, p.slug FROM (
         SELECT * FROM plugins p WHERE ${LISTED} AND (p.install_rank, p.slug) > ($2, $3)
          ORDER BY p.install_rank, p.slug LIMIT ${TIERS[from.tier]?.walked ?? 0}) p
        WHERE ${matches} ${inOrder}),
     gathered AS MATERIALIZED (${part(LISTED)} AND (SELECT count(*) FROM walked) < $4 LIMIT ${GATHERED_MAX + 1})
     ${select(
       'TABLE gathered UNION ALL SELECT * FROM walked WHERE (SELECT count(*) FROM walked) = $4',
       `(SELECT count(*) FROM gathered) > ${GATHERED_MAX}`,
     )}`,
    values,
  );
  if (!gathered.rows[0]?.tooMany) return gathered.rows;
  return (await tx.query<Hit>(select(`(${part(LISTED)} ${inOrder})`, 'false'), values)).rows;
}

const writePlace = ({ rank, slug }: Pick<Place, 'rank' | 'slug'>, tier: number): string =>
  encodeCursor(`${tier} ${rank} ${slug}`);

/** @throws Problem `bad_request` for a cursor that no search gave */
function readPlace(cursor: string | undefined): Place {
  const key = decodeCursor(cursor);
  if (key === null) return START;
  const [, tier, rank, slug] = /^([0-3]) (-?\d{1,5}) ([a-z0-9-]*)$/.exec(key) ?? [];
  if (tier !== undefined && slug !== undefined)
    return { tier: Number(tier), rank: Math.min(0, Math.max(Number(rank), START.rank)), slug };
  throw new Problem('bad_request', 'cursor is not one that a search gave.', {
    errors: [{ field: 'cursor', message: 'unknown cursor' }],
  });
}
