/**
 * Rules for SQL in the code. `ORDER BY position` beside `position::text AS position` sorts by the output column, which is text: 1, 10, 2.
 * PostgreSQL prefers the alias, so a name in ORDER BY must not also be an alias in the same statement; qualify it with its table.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { listFiles, root } from './source-files.ts';

/** SQL of a file: its template literals and strings, with the file's own text constants put in. */
function readStatements(path: string): string[] {
  const source = readFileSync(join(root, path), 'utf8');
  const constants = new Map<string, string>();
  for (const [, name = '', , text = ''] of source.matchAll(/const (\w+) =\s*(['`])((?:(?!\2)[\s\S])*)\2/g))
    constants.set(name, text);
  const literals = [...source.matchAll(/`([^`]*)`|'([^'\n]*)'/g)].map(([, template, text]) => template ?? text ?? '');
  return literals.filter((text) => /\bSELECT\b/.test(text)).map((text) => putIn(text, constants));
}

function putIn(text: string, constants: ReadonlyMap<string, string>): string {
  let result = text;
  for (let depth = 0; depth < 5; depth += 1)
    result = result.replaceAll(/\$\{(\w+)\}/g, (whole, name) => constants.get(name) ?? whole);
  return result;
}

/** Names that a statement sorts by and that are also aliases of other expressions in it. */
function findAliasOrders(sql: string): string[] {
  const aliases = new Set([...sql.matchAll(/(?:::\w+|\))\s+AS\s+"?(\w+)"?/gi)].map(([, name]) => name));
  // ORDER BY inside an aggregate sees no output columns.
  const outside = sql.replaceAll(/_agg\((?:[^()]|\([^()]*\))*\)/g, '_agg()');
  const orders = [...outside.matchAll(/ORDER BY ([^)]*)/gi)].flatMap(([, list = '']) => list.split(','));
  const names = orders.map((item) => item.trim().split(/\s/)[0]?.replaceAll('"', '') ?? '');
  return names.filter((name) => aliases.has(name));
}

t.test('a sort by an output alias is found', async (t) => {
  t.same(findAliasOrders('SELECT id, position::text AS position FROM m ORDER BY position LIMIT 1'), ['position']);
  t.same(findAliasOrders('SELECT position::text AS position FROM m ORDER BY m.position'), []);
  t.same(findAliasOrders('SELECT array_agg(n ORDER BY at), (x) AS at FROM m'), []);
});

t.test('no statement sorts by version number, which text order would get wrong', async (t) => {
  const files = listFiles('db/*.ts', 'api/*.ts', 'supervisor/*.ts', 'service/*.ts', 'deploy/*.ts');
  const sorting = files.filter((path) => readStatements(path).some((sql) => /ORDER BY[^)]*semver/i.test(sql)));
  t.same(sorting, []);
});

t.test('no statement sorts by an output alias', async (t) => {
  const wrong = listFiles('db/*.ts', 'api/*.ts', 'supervisor/*.ts', 'service/*.ts', 'deploy/*.ts').flatMap((path) =>
    readStatements(path).flatMap((sql) => findAliasOrders(sql).map((name) => `${path}: ORDER BY ${name}`)),
  );
  t.same(wrong, [], 'put the table before the name: ORDER BY m.position');
});
