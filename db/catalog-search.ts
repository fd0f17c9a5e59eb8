/**
 * Searching the catalog. Better matches come first: the very slug or name, then words of slug and name, of the
 * description, of the readme; among equals the more installed, then by slug. Only where nothing matches, names that are
 * spelled similarly are offered.
 */
import type { Pool } from 'pg';
import { Problem } from '../sdk/errors.ts';
import { LISTED, OWN } from './catalog.ts';
import { decodeCursor, encodeCursor, type Page } from './cursors.ts';
import { type PageQuery, PLUGIN_COLUMNS, type Plugin } from './plugins.ts';
import { inTransaction } from './pool.ts';

/** Words of a query that are looked at. */
const TERMS_MAX = 8;
/** Shorter beginnings of a word stand in nearly every readme: they are looked for as whole words there. Characters. */
const PREFIX_MIN_CHARS = 3;
/** Share of its trigrams a name must have in common with what was typed: one wrong letter in six. */
const SIMILARITY = 0.4;
/** Similarly spelled names offered at most; they are guesses, and have no further pages. */
const GUESSES_MAX = 20;

/** What a query looks for. */
interface Wanted {
  /** The words as a slug. */
  readonly slug: string;
  /** As it was typed. */
  readonly name: string;
  /** `to_tsquery` for titles: every word or its beginning. */
  readonly title: string;
  /** The same for prose. */
  readonly prose: string;
  /** The words alone. */
  readonly words: string;
}
/** The kinds of match, best first. Each may use the values of the ones before it: `$5` to `$8`. */
const TIERS = [
  { condition: '(p.slug = $5 OR lower(p.display_name) = $6)', valuesOf: ({ slug, name }: Wanted) => [slug, name] },
  { condition: `p.title_words @@ to_tsquery('simple', $7)`, valuesOf: ({ title }: Wanted) => [title] },
  { condition: `p.summary_words @@ to_tsquery('english', $8)`, valuesOf: ({ prose }: Wanted) => [prose] },
  { condition: `p.readme_words @@ to_tsquery('english', $8)`, valuesOf: () => [] },
] as const;

/** Where a page begins: after this row of this tier. */
interface Place {
  readonly tier: number;
  readonly rank: number;
  readonly slug: string;
}
interface Hit extends Plugin {
  readonly rank: number;
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
  const items: Plugin[] = [];
  for (let from = place; from.tier < TIERS.length; from = { ...START, tier: from.tier + 1 }) {
    const left = query.limit - items.length;
    const hits = await readTier(pool, accountId, wanted, from, left + 1);
    const taken = hits.slice(0, left);
    items.push(...taken.map(({ rank: _, ...plugin }) => plugin));
    // One more than fits, be it of this tier or the next, says that there is another page.
    if (hits.length > left) return { items, nextCursor: writePlace(lastOf(taken, from), from.tier) };
  }
  if (items.length > 0 || query.cursor) return { items, nextCursor: null };
  const guesses = await readSimilar(pool, accountId, wanted, Math.min(query.limit, GUESSES_MAX));
  return { items: guesses, nextCursor: null };
}

/** The words of a query. Null: it has none. */
function wantedBy(text: string): Wanted | null {
  const words = text.normalize('NFKC').toLowerCase();
  const terms = (words.match(/[\p{L}\p{M}\p{N}]+/gu) ?? []).slice(0, TERMS_MAX);
  if (terms.length === 0) return null;
  const prose = terms.map((term) => (term.length < PREFIX_MIN_CHARS ? term : `${term}:*`));
  return {
    slug: terms.join('-'),
    name: words.trim(),
    title: terms.map((term) => `${term}:*`).join(' & '),
    prose: prose.join(' & '),
    words: terms.join(' '),
  };
}

/** Rows of one tier that no better tier has, after a place. */
async function readTier(pool: Pool, accountId: string, wanted: Wanted, from: Place, rows: number): Promise<Hit[]> {
  const tiers = TIERS.slice(0, from.tier + 1);
  const matches = tiers
    .map(({ condition }, tier) => (tier === from.tier ? condition : `NOT ${condition}`))
    .join(' AND ');
  const part = (seen: string) =>
    `(SELECT p.id FROM plugins p WHERE ${seen} AND ${matches} AND (p.install_rank, p.slug) > ($2, $3)
       ORDER BY p.install_rank, p.slug LIMIT $4)`;
  const found = await pool.query<Hit>(
    `SELECT ${PLUGIN_COLUMNS}, p.install_rank AS rank FROM (${part(LISTED)} UNION ALL ${part(OWN)}) seen
       JOIN plugins p ON p.id = seen.id JOIN accounts o ON o.id = p.owner_id
      ORDER BY p.install_rank, p.slug LIMIT $4`,
    [accountId, from.rank, from.slug, rows, ...tiers.flatMap(({ valuesOf }) => valuesOf(wanted))],
  );
  return found.rows;
}

/** Plugins with a name that is spelled nearly so, the most similar first. */
async function readSimilar(pool: Pool, accountId: string, { words }: Wanted, rows: number): Promise<Plugin[]> {
  const part = (seen: string) =>
    `(SELECT p.id, word_similarity($2, p.title) AS likeness FROM plugins p WHERE ${seen} AND $2 <% p.title
       ORDER BY likeness DESC, p.install_rank, p.slug LIMIT $3)`;
  return inTransaction(pool, async (tx) => {
    await tx.query(`SELECT set_config('pg_trgm.word_similarity_threshold', $1, true)`, [String(SIMILARITY)]);
    const found = await tx.query<Plugin>(
      `SELECT ${PLUGIN_COLUMNS} FROM (${part(LISTED)} UNION ALL ${part(OWN)}) seen
         JOIN plugins p ON p.id = seen.id JOIN accounts o ON o.id = p.owner_id
        ORDER BY seen.likeness DESC, p.install_rank, p.slug LIMIT $3`,
      [accountId, words, rows],
    );
    return found.rows;
  });
}

const lastOf = (taken: readonly Hit[], from: Place): Pick<Place, 'rank' | 'slug'> => taken.at(-1) ?? from;

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
