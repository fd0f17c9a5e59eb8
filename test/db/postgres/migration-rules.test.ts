/**
 * A release that is being replaced runs on the new tables for a while. So a migration only adds: what nobody uses any more
 * goes in a later release than the code that used it, and the statement says so: `-- unused since <version>`. A statement
 * that old code gets along with for another reason names it: `-- old code: <reason>`.
 *
 * All migrations of an upgrade are one transaction, which keeps its locks until its end. So no change of a table takes as long as the
 * table is large: requests that need the table would wait, and get 503 after `LOCK_TIMEOUT_MS` of `db/postgres/pool.ts`. A table
 * that has few rows on every machine may have such a change: `-- small table: <reason>`.
 */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { listFiles } from '../../house/source-files.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const BREAKING: readonly [RegExp, string][] = [
  [/\bDROP\s+(TABLE|COLUMN|VIEW)\b/i, 'takes something away'],
  [/\bRENAME\s+(TO|COLUMN)\b/i, 'gives something another name'],
  [/\bALTER\s+COLUMN\s+\S+\s+(TYPE|SET\s+DATA\s+TYPE|SET\s+NOT\s+NULL)\b/i, 'wants other values in a column'],
  [/\bADD\s+COLUMN\s+(?![^,;]*\bDEFAULT\b)[^,;]*\bNOT\s+NULL\b/i, 'wants a value that old code does not give'],
];
/** These migrations never ran beside older code. */
const BEFORE_THE_RULE = '0011_agents_media.sql';
const MARK = /--\s*(unused since \d+\.\d+\.\d+|old code: \S)/;

/** Older migrations are released. */
const BEFORE_WHOLE_TABLES = '0087';
const SMALL_MARK = /--\s*small table: \S/;
const ALTER = String.raw`\bALTER\s+TABLE\s+(?:IF\s+EXISTS\s+)?(?:ONLY\s+)?([\w."]+)\s+`;
const CONSTRAINT = '(?:CHECK|FOREIGN|UNIQUE|PRIMARY|EXCLUDE)';
const ADD_COLUMN = String.raw`${ALTER}ADD\s+(?:COLUMN\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(?!(?:CONSTRAINT|${CONSTRAINT})\b)[\w"]+\s[^;]*\b`;
/** Statements that take as long as their table is large. Each pattern contains the name of the table. */
const WHOLE_TABLE: readonly [string, string][] = [
  [String.raw`\bCREATE\s+(?:UNIQUE\s+)?INDEX\s[^;]*?\bON\s+(?:ONLY\s+)?([\w."]+)`, 'builds an index of'],
  [String.raw`\bCLUSTER\s+([\w."]+)`, 'writes all rows again of'],
  [String.raw`\bUPDATE\s+(?:ONLY\s+)?([\w."]+)\s+(?:(?:AS\s+)?\w+\s+)?SET\b`, 'changes rows of'],
  [String.raw`\bDELETE\s+FROM\s+(?:ONLY\s+)?([\w."]+)`, 'changes rows of'],
  [String.raw`${ADD_COLUMN}(?:GENERATED|(?:small|big)?serial)\b`, 'writes all rows again of'],
  // Each row gets a value of its own. Not with `now()`, which is the same in the whole transaction.
  [String.raw`${ADD_COLUMN}DEFAULT\s+\(*(?!now\(\))\w+\(`, 'writes all rows again of'],
  [String.raw`${ADD_COLUMN}(?:CHECK|UNIQUE|PRIMARY)\b`, 'checks all rows of'],
  [String.raw`${ALTER}ALTER\s+(?:COLUMN\s+)?[\w"]+\s+(?:SET\s+DATA\s+)?TYPE\b`, 'writes all rows again of'],
  [String.raw`${ALTER}ALTER\s+(?:COLUMN\s+)?[\w"]+\s+SET\s+NOT\s+NULL\b`, 'checks all rows of'],
  [
    String.raw`${ALTER}ADD\s+(?:CONSTRAINT\s+[\w"]+\s+)?${CONSTRAINT}\b(?![^;]*\b(?:NOT\s+VALID|USING\s+INDEX)\b)`,
    'checks all rows of',
  ],
  [String.raw`${ALTER}VALIDATE\b`, 'checks all rows of'],
];

/** Each change of a table as a statement of its own, and no bodies of functions, because a migration does not run them. */
function listStatements(code: string): string {
  const run = code.replace(/\bFUNCTION\b[^;]*?(\$\w*\$)[\s\S]*?\1/gi, '');
  return run.replace(new RegExp(`(${ALTER})[^;]*`, 'gi'), (statement, alter) =>
    statement.replace(/,\s*(?=(?:ADD|ALTER|DROP|VALIDATE)\b)/gi, `; ${alter}`),
  );
}

/** Tables whose rows all are read or written under a lock. Those that the migration creates are empty. */
function findWholeTables(sql: string): string[] {
  const code = listStatements(readCode(sql, SMALL_MARK));
  const created = [...code.matchAll(/\bCREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)/gi)].map(([, table]) => table);
  return WHOLE_TABLE.flatMap(([pattern, fault]) =>
    [...code.matchAll(new RegExp(pattern, 'gi'))].flatMap(([, table]) =>
      created.includes(table) ? [] : [`${fault} ${table}`],
    ),
  );
}

/** The statements without comments and without lines that have a mark. */
function readCode(sql: string, mark: RegExp): string {
  const lines = sql.split('\n').filter((line) => !mark.test(line));
  return lines.map((line) => line.replace(/--.*$/, '')).join('\n');
}

function faultsOf(sql: string): string[] {
  const code = readCode(sql, MARK);
  return BREAKING.flatMap(([pattern, fault]) => (pattern.test(code) ? [fault] : []));
}

t.test('the rule detects exactly the statements that break old code', async (t) => {
  t.same(faultsOf('ALTER TABLE a DROP COLUMN b;'), ['takes something away']);
  t.same(faultsOf('ALTER TABLE a DROP COLUMN b; -- unused since 0.2.0'), []);
  t.same(faultsOf('ALTER TABLE a ALTER COLUMN b SET NOT NULL; -- old code: the trigger c fills it'), []);
  t.same(faultsOf('ALTER TABLE a RENAME COLUMN b TO c;'), ['gives something another name']);
  t.same(faultsOf('ALTER TABLE a ALTER COLUMN b SET NOT NULL;'), ['wants other values in a column']);
  t.same(faultsOf('ALTER TABLE a ADD COLUMN b text NOT NULL;'), ['wants a value that old code does not give']);
  t.same(faultsOf(`ALTER TABLE a ADD COLUMN b text NOT NULL DEFAULT '';\n-- DROP TABLE c`), []);
});

t.test('the rule detects what takes as long as a table is large', async (t) => {
  const index = 'CREATE INDEX a_b ON a (b) WHERE b IS NOT NULL;';
  t.same(findWholeTables(index), ['builds an index of a']);
  t.same(findWholeTables('CREATE UNIQUE INDEX\n a_b ON ONLY a USING btree (b);'), ['builds an index of a']);
  t.same(findWholeTables(`CREATE TABLE a (b int);\n${index}`), [], 'a new table is empty');
  t.same(findWholeTables(`${index} -- small table: one row for each supervisor`), []);
  t.same(findWholeTables('CLUSTER a USING a_b;'), ['writes all rows again of a']);
  for (const change of ['UPDATE a SET b = 1', 'UPDATE ONLY a AS c SET b = 1 WHERE b = 2', 'DELETE FROM a WHERE b = 1'])
    t.same(findWholeTables(`${change};`), ['changes rows of a'], change);
  for (const change of [
    'ADD COLUMN b int GENERATED ALWAYS AS (1) STORED',
    'ADD b int, ALTER COLUMN c TYPE bigint',
    'ADD COLUMN b bigserial',
    'ADD COLUMN b uuid DEFAULT gen_random_uuid()',
    'ADD COLUMN b text NOT NULL DEFAULT (md5(random()::text)), ADD c int',
  ])
    t.same(findWholeTables(`ALTER TABLE a ${change};`), ['writes all rows again of a'], change);
  for (const change of [
    'ADD CONSTRAINT b CHECK (c > 0)',
    'ADD CONSTRAINT b CHECK (c IN (1, 2)), ADD CONSTRAINT d CHECK (e > 0) NOT VALID',
    'ADD FOREIGN KEY (b) REFERENCES c',
    'ADD COLUMN b int CHECK (b > 0)',
    'ADD IF NOT EXISTS b numeric(9, 2) UNIQUE',
    'ALTER b SET NOT NULL',
    'VALIDATE CONSTRAINT b',
  ])
    t.same(findWholeTables(`ALTER TABLE a ${change};`), ['checks all rows of a'], change);
  for (const change of [
    'ALTER TABLE a ADD CONSTRAINT b CHECK (c > 0) NOT VALID, ADD d int',
    `ALTER TABLE a ADD COLUMN b jsonb NOT NULL DEFAULT '{}', ADD c timestamptz DEFAULT now()`,
    'ALTER TABLE a ADD COLUMN b text; -- CREATE INDEX c ON d (e)',
    'CREATE FUNCTION b() RETURNS trigger AS $$ BEGIN UPDATE a SET c = 1; END $$ LANGUAGE plpgsql',
    'CREATE TRIGGER b BEFORE UPDATE OR DELETE ON a FOR EACH ROW EXECUTE FUNCTION c()',
    'INSERT INTO a VALUES (1) ON CONFLICT (b) DO UPDATE SET c = 1',
  ])
    t.same(findWholeTables(`${change};`), [], change);
});

for (const path of listFiles('db/migrations/*.sql')) {
  if (basename(path) <= BEFORE_THE_RULE) continue;
  const sql = readFileSync(`${ROOT}/${path}`, 'utf8');
  t.same(faultsOf(sql), [], `${path} leaves old code working`);
  if (basename(path) < BEFORE_WHOLE_TABLES) continue;
  const remedy =
    'Write its index into db/postgres/concurrent-indexes.ts, and add a constraint as NOT VALID and a column with a constant default';
  t.same(findWholeTables(sql), [], `${path} locks no table for as long as it is large. ${remedy}`);
}
