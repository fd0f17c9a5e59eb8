/**
 * Compares the catalog's latency with 100,000 plugins and 1,000,000 installations to that with 100 plugins. Runs the
 * REST interface in process over two databases in one temporary PostgreSQL, and reports 95th percentiles of the same
 * requests, interleaved. With `--data` the databases are kept in a folder, because filling them takes many minutes; one of
 * another size is filled again. Run
 * `sh deploy/node.sh bench/catalog.ts [--plugins 100000] [--installations 1000000] [--requests 300] [--data folder [--fill-only]]`.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startEmbedded } from '../db/postgres/embedded.ts';
import { openPool } from '../db/postgres/pool.ts';
import { withDatabase } from '../test/runner/server.ts';
import { type CatalogScale, fillCatalog } from './fixtures/catalog-filling.ts';
import { openCatalog, type ServedCatalog } from './fixtures/catalog-serving.ts';
import { openCleanup, openFolder } from './fixtures/cleanup.ts';
import { printServer } from './fixtures/postgres.ts';
import { readPositiveNumber } from './options.ts';
import { percentile } from './percentiles.ts';

const SMALL: CatalogScale = { plugins: 100, installations: 1_000 };
/** Maximum ratio of the large catalog's latency to the small one's. */
const GOAL = 3;
const P95 = 0.95;
/** Requests before the measurement, to warm the caches. */
const WARM_UP = 30;

const { values } = parseArgs({
  options: {
    plugins: { type: 'string', default: '100000' },
    installations: { type: 'string', default: '1000000' },
    requests: { type: 'string', default: '300' },
    data: { type: 'string' },
    'fill-only': { type: 'boolean', default: false },
  },
});
const large: CatalogScale = {
  plugins: readPositiveNumber('--plugins', values.plugins),
  installations: readPositiveNumber('--installations', values.installations),
};
const requests = readPositiveNumber('--requests', values.requests);

/** The requests to measure; the path of the `index`th one. */
type Question = readonly [name: string, path: (catalog: ServedCatalog, index: number) => string];
const pick = <T>(list: readonly T[], index: number): T => list[index % list.length] as T;
/** Queries as users type them: common and rare words, several words, a prefix, a misspelt word. */
const COMMON = ['weather', 'calendar', 'agent', 'message'];
const TYPED = ['weat', 'cal', 'rem', 'invoic'];
const SEVERAL = ['weather calendar', 'invoice agent', 'sales report'];
const MISSPELT = ['wether', 'calender', 'invioce'];
const questions: readonly Question[] = [
  ['GET /marketplace', () => '/marketplace'],
  ['GET /marketplace, a later page', (catalog) => `/marketplace?cursor=${catalog.middle}`],
  ['GET /marketplace?q=, a common word', (_, index) => `/marketplace?q=${pick(COMMON, index)}&limit=20`],
  ['GET /marketplace?q=, half a word', (_, index) => `/marketplace?q=${pick(TYPED, index)}&limit=20`],
  ['GET /marketplace?q=, several words', (_, index) => `/marketplace?q=${pick(SEVERAL, index)}&limit=20`],
  ['GET /marketplace?q=, a slug', (catalog, index) => `/marketplace?q=${pick(catalog.slugs, index)}&limit=20`],
  ['GET /marketplace?q=, misspelt', (_, index) => `/marketplace?q=${pick(MISSPELT, index)}&limit=20`],
  ['GET /marketplace/{slug}', (catalog, index) => `/marketplace/${pick(catalog.slugs, index)}`],
  ['GET /installations', () => '/installations'],
  ['GET /plugins/{id}', (catalog, index) => `/plugins/${pick(catalog.ownIds, index)}`],
];

const cleanup = openCleanup();
const directory = values.data ?? openFolder(cleanup);
const postgres = await startEmbedded({ dataDir: directory });
cleanup.teardown(() => postgres.stop());
await printServer({ url: postgres.url, dataDir: directory });
await fill('few', SMALL);
await fill('many', large);
if (!values['fill-only']) await askAll(await open('few'), await open('many'));
await cleanup.end();

async function fill(name: string, scale: CatalogScale): Promise<void> {
  const filled = join(directory, `${name}.filled`);
  const wanted = JSON.stringify(scale);
  if (existsSync(filled) && readFileSync(filled, 'utf8') === wanted) return;
  // Written last, so that a database whose filling was interrupted is filled again.
  rmSync(filled, { force: true });
  const started = performance.now();
  const { plugins, installations } = scale;
  await fillCatalog(postgres.url, name, scale);
  writeFileSync(filled, wanted);
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  console.log(`filled with ${plugins} plugins and ${installations} installations in ${seconds} s`);
}

function open(name: string): Promise<ServedCatalog> {
  const url = withDatabase(postgres.url, name);
  const database = openPool(url, { name: 'bench', connections: 4, onError: () => undefined });
  return openCatalog(database, join(directory, name));
}

async function askAll(small: ServedCatalog, full: ServedCatalog): Promise<void> {
  console.log(`p95 of ${requests} requests each, in milliseconds; goal ≤ ${GOAL}×`);
  console.log(`${''.padEnd(40)}${`${small.plugins} plugins`.padStart(14)}${`${full.plugins} plugins`.padStart(17)}`);
  for (const question of questions) await compare(question, small, full);
  await small.close();
  await full.close();
}

async function compare([name, path]: Question, small: ServedCatalog, full: ServedCatalog): Promise<void> {
  const samples = { small: [] as number[], full: [] as number[] };
  for (let index = -WARM_UP; index < requests; index += 1) {
    const few = await small.time(path(small, Math.abs(index)));
    const many = await full.time(path(full, Math.abs(index)));
    if (index < 0) continue;
    samples.small.push(few);
    samples.full.push(many);
  }
  const [before, after] = [percentile(samples.small, P95), percentile(samples.full, P95)];
  const ratio = after / before;
  const numbers = `${before.toFixed(2).padStart(14)}${after.toFixed(2).padStart(17)}${`${ratio.toFixed(2)}×`.padStart(9)}`;
  console.log(`${name.padEnd(40)}${numbers}${ratio > GOAL ? '   over the goal' : ''}`);
  if (ratio > GOAL) process.exitCode = 1;
}
