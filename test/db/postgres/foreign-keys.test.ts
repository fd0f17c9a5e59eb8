/** Every foreign key has an index on the rows that refer: without one, each deletion of a referred row reads the whole table. */
import t from 'tap';
import { listRows } from '../../../db/postgres/rows.ts';
import { testDatabase } from '../../runner/harness.ts';

/** Foreign keys that need none, with the reason. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  'channels (account_id)': 'accounts are never deleted, and no statement looks for channels by their account alone',
  'sign_in_codes (account_id)':
    'accounts are never deleted, and each new code deletes those that expired after minutes',
};

const { pool } = await testDatabase(t);

t.test('every foreign key has an index that begins with its columns', async (t) => {
  const keys = await listRows<{ key: string; isIndexed: boolean }>(
    pool,
    `SELECT f.conrelid::regclass || ' (' || (
              SELECT string_agg(a.attname, ', ' ORDER BY k.position) FROM unnest(f.conkey) WITH ORDINALITY k(number, position)
                JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.number) || ')' AS key,
            EXISTS (
              SELECT FROM pg_index i
               WHERE i.indrelid = f.conrelid AND i.indisvalid
                 AND (i.indkey::int2[])[0:cardinality(f.conkey) - 1] @> f.conkey
                 -- PostgreSQL looks for a value, which is never null.
                 AND (i.indpred IS NULL OR cardinality(f.conkey) = 1 AND pg_get_expr(i.indpred, i.indrelid) = (
                   SELECT '(' || quote_ident(a.attname) || ' IS NOT NULL)' FROM pg_attribute a
                    WHERE a.attrelid = f.conrelid AND a.attnum = f.conkey[1]))) AS "isIndexed"
       FROM pg_constraint f WHERE f.contype = 'f' AND f.connamespace = 'public'::regnamespace ORDER BY 1`,
  );
  t.ok(keys.length > 30, `${keys.length} foreign keys`);
  const missing = keys.filter(({ isIndexed }) => !isIndexed).map(({ key }) => key);
  t.same(missing, Object.keys(EXCEPTIONS));
});
