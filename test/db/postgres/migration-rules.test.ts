/**
 * A release that is being replaced runs on the new tables for a while. So a migration only adds: what nobody uses any more
 * goes in a later release than the code that used it, and the statement says so: `-- unused since <version>`. A statement
 * that old code gets along with for another reason names it: `-- old code: <reason>`.
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

function faultsOf(sql: string): string[] {
  const lines = sql.split('\n').filter((line) => !MARK.test(line));
  const code = lines.map((line) => line.replace(/--.*$/, '')).join('\n');
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

for (const path of listFiles('db/migrations/*.sql')) {
  if (basename(path) <= BEFORE_THE_RULE) continue;
  t.same(faultsOf(readFileSync(`${ROOT}/${path}`, 'utf8')), [], `${path} leaves old code working`);
}
