/**
 * Searches the catalog. Results are ordered by tier (exact slug or name, words of slug and name, of the description, of the
 * readme), then by installations, then by slug. If no title matches, titles that match spelling suggestions come before the
 * readmes; if nothing matches, the search is repeated with the suggestions, and then for titles that match any of the words.
 */

import type { Pool } from 'pg';
import { createCursorProblem, decodeCursor, encodeCursor, type Page } from '../postgres/cursors.ts';
import { inTransaction, type Transaction } from '../postgres/pool.ts';
import { type Bounded, countBytes, type PageQuery } from '../postgres/rows.ts';
import { boundedPluginsSql, LISTED, OWN_PLUGINS, PAGE_MAX_BYTES } from './catalog.ts';
import { PLUGIN_COLUMNS, type Plugin } from './plugins.ts';
import { SIMILARITY_MIN, suggestWords } from './spelling-suggestions.ts';

/** Length of a query. NFKC makes up to 18 characters of one, and those beyond are ignored. */
export const QUERY_MAX_CHARS = 200;
/** Further words of a query are ignored. */
const WORDS_MAX = 8;
/** As many pairs of characters as the words of an ordinary query in a script without spaces have. */
const TERMS_MAX = 32;
/** Nearly every readme matches a shorter prefix, so shorter terms match whole words there. */
const PREFIX_MIN_CHARS = 3;
/** Marks that belong to no word, such as those of emoji. */
const SYMBOL_MARKS = /[\u20D0-\u20FF\uFE00-\uFE0F]/gu;
/** Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese. The same ranges as in `plain_words`. */
const UNSPACED = String.raw`\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3005-\u3007\u3040-\u30FF\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\u{20000}-\u{3FFFF}`;
const SAME_SCRIPT = new RegExp(`(?<unspaced>[${UNSPACED}]+)|[^${UNSPACED}]+`, 'gu');
/** A character of these scripts, which a query may have on its own. */
const LONE_CHARACTER = new RegExp(`^[${UNSPACED}]$`, 'u');
/** Matches read from the text index and then sorted. For more frequent words, a scan in result order is faster. */
const GATHERED_MAX = 2_000;
/** Results of a search by suggestions or for any of the words, which has a single page. */
const SUGGESTED_MAX = 20;
/** Words that a query may contain, and that fit every plugin. */
const EVERY_PLUGIN = ['plugin', 'plugins'];

interface SearchTerms {
  /** The words as a slug. */
  readonly slug: string;
  /** As typed, and normalized. */
  readonly names: readonly string[];
  /** `to_tsquery` for titles: all words, the last one as a prefix. */
  readonly title: string;
  /** `to_tsquery` for description and readme. */
  readonly prose: string;
  readonly terms: readonly string[];
}
/**
 * Best first. Each condition may use the values of the tiers before it: `$5` to `$8`.
 *
 * `walked`: number of plugins scanned in result order before the text index is used. For a word that every twentieth plugin
 * contains, this fills a page faster than its index entries can be read. Readmes are long and contain most common words.
 */
const TIERS = [
  {
    condition: '(p.slug = $5 OR lower(p.display_name) = ANY ($6))',
    valuesOf: ({ slug, names }: SearchTerms) => [slug, names],
    walked: 0,
  },
  {
    condition: `p.title_words @@ to_tsquery('simple', $7)`,
    valuesOf: ({ title }: SearchTerms) => [title],
    walked: 600,
  },
  {
    condition: `p.summary_words @@ to_tsquery('english', $8)`,
    valuesOf: ({ prose }: SearchTerms) => [prose],
    walked: 400,
  },
  { condition: `p.readme_words @@ to_tsquery('english', $8)`, valuesOf: () => [], walked: 200 },
] as const;
/** The tiers of slug and name come first. */
const TITLE_TIERS = 2;
const README_TIER = TIERS.length - 1;

/** A page starts after this row of this tier. */
interface Position {
  readonly tier: number;
  readonly rank: number;
  readonly slug: string;
}
interface Hit extends Plugin, Bounded {
  readonly rank: number;
  /** More than `GATHERED_MAX` matches: these rows may not be the first ones. */
  readonly tooMany: boolean;
}
interface TieredPage extends Page<Plugin> {
  /** The tier of each item. */
  readonly tiers: readonly number[];
}
const START: Position = { tier: 0, rank: -32_768, slug: '' };

export async function searchCatalog(
  pool: Pool,
  accountId: string,
  text: string,
  query: PageQuery,
): Promise<Page<Plugin>> {
  const start = decodePosition(query.cursor);
  const search = parseQuery(text);
  if (!search) return { items: [], nextCursor: null };
  return inTransaction(pool, async (tx) => {
    // The planner cannot estimate how common a prefix is: keep it from a sequential scan over all readmes.
    await tx.query(
      `SELECT set_config('enable_seqscan', 'off', true), set_config('pg_trgm.word_similarity_threshold', $1, true)`,
      [String(SIMILARITY_MIN)],
    );
    const { tiers, ...page } = await readTiers(tx, accountId, search, query.limit, start);
    const isTitleFound = tiers.some((tier) => tier < TITLE_TIERS);
    if (query.cursor || isTitleFound || page.items.length === query.limit || page.nextCursor !== null) return page;
    const alternatives = listAlternatives(search, await suggestWords(tx, accountId, search.terms));
    const corrected = alternatives.some(({ length }) => length > 1) ? matchAll(search, alternatives) : null;
    const limit = Math.min(query.limit - page.items.length, SUGGESTED_MAX);
    // Readmes contain many words. A misspelt word in one must not hide the plugins whose names were meant.
    const searched = page.items.length === 0 ? TIERS.length : TITLE_TIERS;
    const suggested = corrected ? (await readTiers(tx, accountId, corrected, limit, START, searched)).items : [];
    if (page.items.length + suggested.length === 0) {
      const some = matchAny(search, alternatives, await findStopWords(tx, search.terms));
      return some ? { ...(await readTiers(tx, accountId, some, limit, START, TITLE_TIERS)), nextCursor: null } : page;
    }
    const isOther = ({ id }: Plugin) => !suggested.some((plugin) => plugin.id === id);
    const described = page.items.filter((_, index) => tiers[index] !== README_TIER);
    const mentioned = page.items.slice(described.length);
    return {
      items: [...described.filter(isOther), ...suggested, ...mentioned.filter(isOther)],
      nextCursor: null,
    };
  });
}

async function readTiers(
  tx: Transaction,
  accountId: string,
  search: SearchTerms,
  limit: number,
  start: Position,
  tierCount: number = TIERS.length,
): Promise<TieredPage> {
  const items: Plugin[] = [];
  const tiers: number[] = [];
  let bytesLeft = PAGE_MAX_BYTES;
  for (let from = start; from.tier < tierCount; from = { ...START, tier: from.tier + 1 }) {
    const left = limit - items.length;
    const hits = await readTier(tx, accountId, search, from, left + 1, bytesLeft);
    const fitting = hits.slice(0, left);
    items.push(...fitting);
    tiers.push(...fitting.map(() => from.tier));
    // One hit more than fits, of this tier or a later one, means that there is another page.
    if (hits.length > left) return { items, tiers, nextCursor: encodePosition(fitting.at(-1) ?? from, from.tier) };
    bytesLeft -= countBytes(hits);
    // Large plugins end the page early. Others of this tier may follow.
    if (bytesLeft <= 0) return { items, tiers, nextCursor: encodePosition(hits.at(-1) ?? from, from.tier) };
  }
  return { items, tiers, nextCursor: null };
}

/** Splits a query as `plain_words` splits the texts of plugins. */
function splitWords(text: string): string[] {
  const words = text.replace(SYMBOL_MARKS, ' ').match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  return words
    .slice(0, WORDS_MAX)
    .flatMap((word) =>
      [...word.matchAll(SAME_SCRIPT)].flatMap(({ 0: run, groups }) => (groups?.unspaced ? listPairs(run) : [run])),
    );
}

/** Returns each two neighbouring characters, or the only one. */
function listPairs(run: string): string[] {
  const characters = [...run];
  if (characters.length === 1) return characters;
  return characters.slice(1).map((character, index) => `${characters[index]}${character}`);
}

/** Null: the query contains no words. */
function parseQuery(text: string): SearchTerms | null {
  const words = text.normalize('NFKC').toLowerCase().slice(0, QUERY_MAX_CHARS);
  const terms = splitWords(words).slice(0, TERMS_MAX);
  if (terms.length === 0) return null;
  // Only the last word is a prefix, because a prefix reads the index entries of all words that start with it. Few start with a
  // character of a script without spaces.
  const last = terms.length - 1;
  const toQueryTerm = (term: string, index: number, minChars: number) =>
    LONE_CHARACTER.test(term) || (index === last && term.length >= minChars) ? `${term}:*` : term;
  return {
    slug: terms.join('-'),
    names: [text.toLowerCase().slice(0, QUERY_MAX_CHARS).trim(), words.trim()],
    title: terms.map((term, index) => toQueryTerm(term, index, 1)).join(' & '),
    prose: terms.map((term, index) => toQueryTerm(term, index, PREFIX_MIN_CHARS)).join(' & '),
    terms,
  };
}

/** Each typed word, which may be correct but not part of any title, and the suggestions for it. */
const listAlternatives = (
  { terms }: SearchTerms,
  suggestions: readonly (readonly string[])[],
): readonly (readonly string[])[] => terms.map((term, index) => [...new Set([term, ...(suggestions[index] ?? [])])]);

function matchAll(search: SearchTerms, alternatives: readonly (readonly string[])[]): SearchTerms {
  const query = alternatives.map((words) => `(${words.map(quoteTerm).join('|')})`).join(' & ');
  return { ...search, title: query, prose: query };
}

/** The last word is a prefix, as in other searches. Null: with one word, or with stop words only, nothing else can be found. */
function matchAny(
  search: SearchTerms,
  alternatives: readonly (readonly string[])[],
  stopWords: ReadonlySet<string>,
): SearchTerms | null {
  const typed = search.terms.length - 1;
  const words = alternatives.flatMap((given, index) =>
    stopWords.has(search.terms[index] ?? '')
      ? []
      : given.map((word, other) => (index === typed && other === 0 ? `${quoteTerm(word)}:*` : quoteTerm(word))),
  );
  return words.length === 0 || typed === 0 ? null : { ...search, title: words.join('|') };
}

/** Returns those that say nothing about a plugin. */
async function findStopWords(tx: Transaction, terms: readonly string[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ term: string }>(
    `SELECT term FROM unnest($1::text[]) term WHERE ts_lexize('english_stem', term) = '{}'`,
    [terms],
  );
  return new Set([...EVERY_PLUGIN, ...rows.map(({ term }) => term)]);
}

/** Quotes a word for `to_tsquery`. */
const quoteTerm = (word: string): string => `'${word.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;

/** Reads the rows of one tier that are in no better tier, until they are large together. */
async function readTier(
  tx: Transaction,
  accountId: string,
  search: SearchTerms,
  from: Position,
  rows: number,
  maxBytes: number,
): Promise<Hit[]> {
  const tiers = TIERS.slice(0, from.tier + 1);
  const matches = tiers
    .map(({ condition }, tier) => (tier === from.tier ? condition : `NOT ${condition}`))
    .join(' AND ');
  const values = [accountId, from.rank, from.slug, rows, ...tiers.flatMap(({ valuesOf }) => valuesOf(search))];
  const found = `${matches} AND (p.install_rank, p.slug) > ($2, $3)`;
  const part = (seen: string, plugins = 'plugins') =>
    `SELECT p.id, p.install_rank, p.slug FROM ${plugins} p WHERE ${seen} AND ${found}`;
  const inOrder = 'ORDER BY install_rank, slug LIMIT $4';
  const select = (listed: string, tooMany: string) =>
    boundedPluginsSql({
      ids: `${listed} UNION ALL (${part('true', OWN_PLUGINS)} ${inOrder}) ${inOrder}`,
      order: 'p.install_rank, p.slug',
      maxBytes,
      columns: `${PLUGIN_COLUMNS}, p.install_rank AS rank, ${tooMany} AS "tooMany"`,
    });
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

const encodePosition = ({ rank, slug }: Pick<Position, 'rank' | 'slug'>, tier: number): string =>
  encodeCursor(`${tier} ${rank} ${slug}`);

/** @throws Problem `bad_request` for an invalid cursor */
function decodePosition(cursor: string | undefined): Position {
  const key = decodeCursor(cursor);
  if (key === null) return START;
  const [, tier, rank, slug] = /^([0-3]) (-?\d{1,5}) ([a-z0-9-]*)$/.exec(key) ?? [];
  if (tier !== undefined && slug !== undefined)
    return { tier: Number(tier), rank: Math.min(0, Math.max(Number(rank), START.rank)), slug };
  throw createCursorProblem('cursor is invalid. Use the nextCursor of a search with the same query.');
}
