/** Words of the catalog go when no listed title has them, and never one that a title is just getting. */
import type { Pool } from 'pg';
import t from 'tap';
import { changeBlock } from '../../../db/accounts/moderation.ts';
import { refillPluginWords, sweepCatalogWords } from '../../../db/catalog/catalog-words.ts';
import { insertPlugin, renamePlugin, setVisibility } from '../../../db/catalog/plugins.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { listValues } from '../../../db/postgres/rows.ts';
import { testDatabase } from '../../runner/harness.ts';

const { pool } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
async function list(slug: string, displayName: string): Promise<string> {
  const made = await insertPlugin(pool, { ownerId: 'a', slug, displayName, description: '' });
  if (!made) throw new Error('the slug is free');
  await inTransaction(pool, (tx) => setVisibility(tx, made.id, 'listed', null));
  return made.id;
}
const rename = (id: string, displayName: string) => inTransaction(pool, (tx) => renamePlugin(tx, id, { displayName }));
const listWords = () => listValues<string>(pool, 'SELECT word FROM catalog_words ORDER BY word');

t.test('a sweep removes the words that no listed title has', async (t) => {
  const id = await list('harbour', 'Old Name');
  await list('bridge', 'Name 4.5 of C:\\path');
  await rename(id, 'New Name');
  const kept = ['4', '5', 'bridge', 'c', 'harbour', 'name', 'new', 'of', 'path'];
  t.same(await listWords(), [...kept, 'old'].sort());
  await sweepCatalogWords(pool);
  t.same(await listWords(), kept);
  await changeBlock(pool, 'harbour', 'bad');
  await sweepCatalogWords(pool);
  t.same(
    await listWords(),
    kept.filter((word) => word !== 'harbour' && word !== 'new'),
  );
  await changeBlock(pool, 'harbour', null);
  t.same(await listWords(), kept, 'the end of a block adds its words again');
});

t.test('a sweep removes any number of words', async (t) => {
  const before = await listWords();
  await pool.query(`INSERT INTO catalog_words SELECT 'unused' || n FROM generate_series(1, 2500) n`);
  await sweepCatalogWords(pool);
  t.same(await listWords(), before);
});

t.test('a sweep keeps the words of a plugin that is just being listed', async (t) => {
  const id = await list('tower', 'Lighthouse');
  await rename(id, 'Beacon');
  const before = await listWords();
  t.ok(before.includes('lighthouse'));
  await inTransaction(pool, async (tx) => {
    await renamePlugin(tx, id, { displayName: 'Lighthouse' });
    await sweepCatalogWords(pool);
  });
  t.same(await listWords(), before, 'it gave up');
  await sweepCatalogWords(pool);
  t.same(
    await listWords(),
    before.filter((word) => word !== 'beacon'),
  );
});

t.test('a sweep keeps the words of a plugin that was listed after it looked', async (t) => {
  const id = await list('mill', 'Wind');
  await rename(id, 'Water');
  const listingMeanwhile = {
    query: (text: string, values: unknown[]) => pool.query(text, values),
    connect: async () => {
      await rename(id, 'Wind');
      return pool.connect();
    },
  };
  await sweepCatalogWords(listingMeanwhile as unknown as Pool);
  t.ok((await listWords()).includes('wind'));
});

t.test('plugins get the words that an upgrade splits in another way, and others are not written', async (t) => {
  const id = await list('kyoto', '京都天気予報');
  const other = await list('plain', 'Plain name');
  await pool.query(
    `UPDATE plugins SET title_words = $2::tsvector, summary_words = $2::tsvector, readme_words = $2::tsvector WHERE id = $1`,
    [id, `'kyoto' '京都天気予報'`],
  );
  const readRow = async (plugin: string) =>
    (await pool.query('SELECT xmin::text, title_words::text AS words FROM plugins WHERE id = $1', [plugin])).rows[0];
  const before = await readRow(other);
  await refillPluginWords(pool);
  const filled = await readRow(id);
  for (const word of ['京都', '都天', '天気', '気予', '予報', '報', 'kyoto'])
    t.ok(filled.words.includes(`'${word}'`), `${word}: ${filled.words}`);
  t.ok((await listWords()).includes('天気'));
  await refillPluginWords(pool);
  t.same([await readRow(id), await readRow(other)], [filled, before], 'nothing is left to do');
});
