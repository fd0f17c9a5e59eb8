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

/** Lists the tables of a backup, without generated columns. */
export const listTables = (client: Client): Promise<Table[]> =>
  listRows(
    client,
    `SELECT c.relname AS name,
        (SELECT json_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
          WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') AS columns,
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
  for (const table of tables) {
    const name = escapeIdentifier(table.name);
    for (const { name: part, bound } of table.partitions) {
      await client.query(`CREATE TABLE IF NOT EXISTS ${escapeIdentifier(part)} PARTITION OF ${name} ${bound}`);
    }
    await client.query(`ALTER TABLE ${name} DISABLE TRIGGER USER`);
    const query = client.query(copyFrom(`COPY ${name} (${joinColumns(table.columns)}) FROM STDIN`));
    await pipeline(await read(table), query);
    counts.set(table.name, query.rowCount);
    await client.query(`ALTER TABLE ${name} ENABLE TRIGGER USER`);
  }
  for (const statement of foreignKeys) await client.query(statement);
  await advanceSequences(client);
  return counts;
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

/** Identity columns continue after their greatest value. */
async function advanceSequences(client: Client): Promise<void> {
  const found = await client.query<{ table: string; column: string }>(
    `SELECT attrelid::regclass::text AS table, attname AS column FROM pg_attribute
       JOIN pg_class c ON c.oid = attrelid
      WHERE attidentity <> '' AND NOT attisdropped AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
        AND c.relname <> 'migrations'`,
  );
  for (const { table, column } of found.rows) {
    const name = escapeIdentifier(column);
    await client.query(
      `SELECT setval(pg_get_serial_sequence($1, $2), greatest(1, (SELECT max(${name}) FROM ${table})),
              EXISTS (SELECT 1 FROM ${table}))`,
      [table, column],
    );
  }
}
