/** Exports tables from a database and imports them into an empty one. */

import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Client, escapeIdentifier } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { findValue, listRows, listValues } from '../postgres/rows.ts';
import type { StoredTable } from './format.ts';

/** Recreated at start, or valid for seconds only. */
const EXCLUDED_TABLES = [
  'migrations',
  'handshakes',
  'introspections',
  'installation_runtime',
  'usage_limits',
  'supervisors',
  'shards',
  'spools',
];

export type Table = Pick<StoredTable, 'name' | 'columns' | 'partitions'>;

/** Columns of transaction ids: ids of one server mean nothing on another. The import gives the rows its own transaction. */
const TRANSACTION_ID = `'xid8'::regtype`;

/** Lists the tables of a backup, without generated columns and transaction ids. */
export const listTables = (client: Client): Promise<Table[]> =>
  listRows(
    client,
    `SELECT c.relname AS name,
        (SELECT json_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
          WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
            AND a.atttypid <> ${TRANSACTION_ID}) AS columns,
        (SELECT coalesce(json_agg(json_build_object('name', p.relname, 'bound', pg_get_expr(p.relpartbound, p.oid))), '[]')
           FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid WHERE i.inhparent = c.oid) AS partitions
       FROM pg_class c
      WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND NOT c.relname = ANY ($1)
      ORDER BY c.relname`,
    [EXCLUDED_TABLES],
  );

/** Names of the applied migrations, in order. Null: the database was never migrated. */
export async function listMigrations(client: Client): Promise<string[] | null> {
  if (!(await findValue(client, `SELECT to_regclass('public.migrations') IS NOT NULL`))) return null;
  return listValues(client, 'SELECT name FROM migrations ORDER BY id');
}

/** Counts the migrations of the last run, which have one time because they are one transaction. */
export const countLastUpgrade = (client: Client): Promise<number | null> =>
  findValue(
    client,
    'SELECT count(*)::int FROM migrations WHERE run_on = (SELECT run_on FROM migrations ORDER BY id DESC LIMIT 1)',
  );

const joinColumns = (columns: readonly string[]): string => columns.map(escapeIdentifier).join(', ');

/** Streams the rows of a table in PostgreSQL's text format. `rows()` is valid after the end of the stream. */
export function exportTable(client: Client, { name, columns }: Table): { stream: Readable; rows(): number } {
  const query = client.query(copyTo(`COPY (SELECT ${joinColumns(columns)} FROM ${escapeIdentifier(name)}) TO STDOUT`));
  return { stream: query, rows: () => query.rowCount };
}

/**
 * Imports rows without firing triggers. Foreign keys are checked after all tables. Call it in a transaction.
 *
 * @returns the number of rows of each table
 */
export async function importTables(
  client: Client,
  tables: readonly Table[],
  read: (table: Table) => Promise<Readable>,
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  const foreignKeys = await dropForeignKeys(client);
  const transactionIds = await listTransactionIds(client);
  for (const table of tables) {
    const name = escapeIdentifier(table.name);
    for (const { name: part, bound } of table.partitions) {
      await client.query(`CREATE TABLE IF NOT EXISTS ${escapeIdentifier(part)} PARTITION OF ${name} ${bound}`);
    }
    await client.query(`ALTER TABLE ${name} DISABLE TRIGGER USER`);
    counts.set(table.name, await importRows(client, table, transactionIds.get(table.name), await read(table)));
    await client.query(`ALTER TABLE ${name} ENABLE TRIGGER USER`);
  }
  for (const statement of foreignKeys) await client.query(statement);
  await advanceSequences(client);
  return counts;
}

interface TransactionIds {
  readonly columns: readonly string[];
  readonly isInKey: boolean;
}

async function listTransactionIds(client: Client): Promise<Map<string, TransactionIds>> {
  const found = await client.query<TransactionIds & { name: string }>(
    `SELECT c.relname AS name, json_agg(a.attname) AS columns,
            bool_or(EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND a.attnum = ANY (i.indkey))) AS "isInKey"
       FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
      WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = ${TRANSACTION_ID}
      GROUP BY c.relname`,
  );
  return new Map(found.rows.map(({ name, ...ids }) => [name, ids]));
}

/** @returns the number of rows in the stream */
async function importRows(
  client: Client,
  { name, columns }: Table,
  transactionIds: TransactionIds | undefined,
  rows: Readable,
): Promise<number> {
  const kept = columns.filter((column) => !transactionIds?.columns.includes(column));
  if (kept.length === columns.length && !transactionIds?.isInKey) return copyRows(client, name, columns, rows);
  // COPY cannot leave out a column of a backup that still has it. In a key, rows that differed only by their transaction
  // become one.
  await client.query(
    `CREATE TEMPORARY TABLE imported_rows AS SELECT ${joinColumns(columns)} FROM ${escapeIdentifier(name)} WITH NO DATA`,
  );
  const count = await copyRows(client, 'imported_rows', columns, rows);
  await client.query(
    `INSERT INTO ${escapeIdentifier(name)} (${joinColumns(kept)}) OVERRIDING SYSTEM VALUE
     SELECT ${joinColumns(kept)} FROM imported_rows ON CONFLICT DO NOTHING`,
  );
  await client.query('DROP TABLE imported_rows');
  return count;
}

async function copyRows(client: Client, table: string, columns: readonly string[], rows: Readable): Promise<number> {
  const query = client.query(copyFrom(`COPY ${escapeIdentifier(table)} (${joinColumns(columns)}) FROM STDIN`));
  await pipeline(rows, query);
  return query.rowCount;
}

/** @returns the statements that add them again, which checks every row */
async function dropForeignKeys(client: Client): Promise<string[]> {
  const found = await client.query<{ table: string; name: string; definition: string }>(
    `SELECT conrelid::regclass::text AS table, quote_ident(conname) AS name, pg_get_constraintdef(oid) AS definition
       FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 AND connamespace = 'public'::regnamespace`,
  );
  for (const { table, name } of found.rows) await client.query(`ALTER TABLE ${table} DROP CONSTRAINT ${name}`);
  return found.rows.map(({ table, name, definition }) => `ALTER TABLE ${table} ADD CONSTRAINT ${name} ${definition}`);
}

/** Sequences continue after the greatest value of the columns that they number. Two tables may share one. */
async function advanceSequences(client: Client): Promise<void> {
  const found = await client.query<{ sequence: string; table: string; column: string }>(
    `SELECT s.oid::regclass::text AS sequence, c.oid::regclass::text AS table, a.attname AS column
       FROM pg_class s
       JOIN LATERAL (
         SELECT d.refobjid AS relation, d.refobjsubid::int AS number FROM pg_depend d
          WHERE d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.refclassid = 'pg_class'::regclass
            AND d.deptype = 'i'
         UNION
         SELECT v.adrelid, v.adnum FROM pg_depend d JOIN pg_attrdef v ON v.oid = d.objid
          WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = s.oid
       ) numbered ON true
       JOIN pg_class c ON c.oid = numbered.relation
       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = numbered.number
      WHERE s.relkind = 'S' AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
        AND NOT c.relname = ANY ($1)`,
    [EXCLUDED_TABLES],
  );
  for (const [sequence, columns] of Map.groupBy(found.rows, (row) => row.sequence)) {
    const greatest = columns
      .map(({ table, column }) => `(SELECT max(${escapeIdentifier(column)}) FROM ${table})`)
      .join(', ');
    await client.query(
      // Materialized: PostgreSQL would read the tables once for each use of the value.
      `WITH used AS MATERIALIZED (SELECT greatest(${greatest}) AS last)
       SELECT setval($1::regclass, coalesce(used.last, 1), used.last IS NOT NULL) FROM used`,
      [sequence],
    );
  }
}
