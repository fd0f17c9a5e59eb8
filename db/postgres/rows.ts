/** Runs statements and returns their rows. */
import { createHash } from 'node:crypto';
import type { ClientBase, Pool, QueryResultRow } from 'pg';
import { KIB, MIB } from '../../sdk/contract/limits.ts';
import { decodeCursor, decodePosition, type Page, toPage } from './cursors.ts';

/** The pool, or a connection inside a transaction. */
export type Queryable = Pool | ClientBase;

/** A statement that each connection parses once and plans every few seconds, unless a pooler is in front of the server. */
interface NamedStatement {
  readonly name: string;
  readonly text: string;
}
export type Statement = string | NamedStatement;

/**
 * For frequent statements, whose planning takes longer than their work. Call it for a constant of a module, never in a
 * request: every connection keeps each statement until it ends. The plan is one for all values: `$1 IS NULL OR key > $1` would not use an
 * index, `key > coalesce($1, '')` does.
 */
export const planOnce = (text: string): NamedStatement => ({
  name: createHash('sha256').update(text).digest('base64url'),
  text,
});

/** Returns the first row. Null: there are no rows. */
export async function findRow<Row extends QueryResultRow>(
  db: Queryable,
  sql: Statement,
  values: readonly unknown[] = [],
): Promise<Row | null> {
  const rows = await listRows<Row>(db, sql, values);
  return rows[0] ?? null;
}

export async function listRows<Row extends QueryResultRow>(
  db: Queryable,
  sql: Statement,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const found = await db.query<Row>(sql, [...values]);
  return found.rows;
}

export const hasRow = async (db: Queryable, sql: Statement, values: readonly unknown[] = []): Promise<boolean> =>
  (await listRows(db, sql, values)).length > 0;

/** Returns the first column of the first row. Null: there are no rows, or the value is NULL. */
export async function findValue<Value>(
  db: Queryable,
  sql: Statement,
  values: readonly unknown[] = [],
): Promise<Value | null> {
  const [value] = await listValues<Value>(db, sql, values);
  return value ?? null;
}

/** Returns the first column of each row. */
export async function listValues<Value>(
  db: Queryable,
  sql: Statement,
  values: readonly unknown[] = [],
): Promise<Value[]> {
  const rows = await listRows(db, sql, values);
  return rows.map((row) => Object.values(row)[0]);
}

/** Returns the number of rows that the statement changed. */
export async function changeRows(db: Queryable, sql: Statement, values: readonly unknown[] = []): Promise<number> {
  const changed = await db.query(sql, [...values]);
  return changed.rowCount ?? 0;
}

/** Rows changed by one statement of a sweep: keeps its locks short. */
export const SWEEP_BATCH = 2_000;
/** Statements of one sweep: other work waits for it. The next sweep continues. */
const SWEEP_STATEMENTS = 20;

/** @param sql changes at most `SWEEP_BATCH` rows, and skips those that others have locked */
export async function sweepRows(
  pool: Pool,
  sql: string,
  values: readonly unknown[] = [],
  statementsMax = SWEEP_STATEMENTS,
): Promise<void> {
  for (let statements = 0; statements < statementsMax; statements++)
    if ((await changeRows(pool, sql, values)) < SWEEP_BATCH) return;
}

export interface PageQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/**
 * Reads one page of a list that is sorted by id.
 *
 * @param sql its last two parameters are the id after which the page starts (null: from the beginning) and the limit
 */
export async function readPage<Row extends QueryResultRow & { readonly id: string }>(
  db: Queryable,
  sql: string,
  values: readonly unknown[],
  { limit, cursor }: PageQuery,
): Promise<Page<Row>> {
  const rows = await listRows<Row>(db, sql, [...values, decodeCursor(cursor), limit + 1]);
  return toPage(rows, limit, ({ id }) => id);
}

/** Rows that one page looks through for those that its filter wants. More than the largest page has. */
const WINDOW = 2_000;
/** Bytes of the rows of one page of the REST interface. A page is read in one piece and written in one piece. */
const PAGE_MAX_BYTES = MIB;
/** JSON of many small values costs this many times as much to read and write as a text of its length. */
const JSON_WEIGHT = 4;

/**
 * Returns SQL of the bytes that a JSON value counts in a page. Small values count once, so that ordinary pages do not end early.
 *
 * @param bytes SQL of its length
 */
export const weighJsonSql = (bytes: string, smallBytes = KIB): string =>
  `(${bytes} + ${JSON_WEIGHT - 1} * greatest(0, ${bytes} - ${smallBytes}))`;

interface FilteredQuery extends Pick<BoundedQuery, 'columns' | 'table' | 'joins'> {
  /** Selects all rows that the filter is for. Ends with a condition. */
  readonly rows: string;
  readonly isWanted: string;
  /** False for a row and all older ones: the list ends before it. Default: true. */
  readonly isKept?: string;
  /** The bytes of a row, where large rows end the page early. */
  readonly bytes?: string;
}
interface Scanned extends Bounded {
  readonly isWanted: boolean;
  /** The page has looked through all rows that it may, so others may follow. */
  readonly endsWindow: boolean;
}

/** Reads one page of the rows that a filter wants, newest id first. Where it wants few, the page is short or empty, but has a cursor. */
export async function readFilteredPage<Row extends QueryResultRow & { readonly id: string }>(
  db: Queryable,
  { columns, table, rows, isWanted, isKept = 'true', joins = '', bytes = '0' }: FilteredQuery,
  values: readonly unknown[],
  { limit, cursor }: PageQuery,
): Promise<Page<Omit<Row & Scanned, keyof Scanned>>> {
  const [key, rowsMax] = [values.length + 1, values.length + 2];
  const scanned = await listRows<Row & Scanned>(
    db,
    boundedSql({
      columns: `${columns}, "isWanted", "endsWindow"`,
      table,
      joins,
      key: 'id',
      order: 'DESC',
      maxBytes: PAGE_MAX_BYTES,
      rows: `SELECT *, CASE WHEN "isWanted" THEN ${bytes} ELSE 0 END AS bytes FROM (
         SELECT *, ${isWanted} AS "isWanted", row_number() OVER (ORDER BY id DESC) = ${WINDOW} AS "endsWindow" FROM (
           ${rows} AND ($${key}::text IS NULL OR id < $${key}) ORDER BY id DESC LIMIT ${WINDOW}) AS in_window) AS scanned
        WHERE ("isWanted" OR "endsWindow") AND ${isKept} ORDER BY id DESC LIMIT $${rowsMax}`,
    }),
    [...values, decodeCursor(cursor), limit + 1],
  );
  const isCut = scanned.at(-1)?.endsWindow || isCutShort(scanned, PAGE_MAX_BYTES);
  const { items, nextCursor } = toPage(scanned, limit, ({ id }) => id, isCut);
  const wanted = items.filter((row) => row.isWanted);
  return { items: wanted.map(({ isWanted: _, endsWindow: __, bytesSoFar: ___, ...row }) => row), nextCursor };
}

/** A row of a list that is sorted by position. */
export type Positioned<Row> = Row & { readonly position: string };

/** Which rows of a list come first. */
export const pageOrders = ['oldest', 'newest'] as const;
export type PageOrder = (typeof pageOrders)[number];

/**
 * Returns SQL for a page of `readPositionPage` in either order.
 *
 * @param position the column
 * @param start the parameter with the position after which the page starts
 */
export const orderPage = (
  position: string,
  start: string,
  order: PageOrder,
): { readonly condition: string; readonly direction: 'ASC' | 'DESC' } =>
  order === 'oldest'
    ? { condition: `${position} > ${start}`, direction: 'ASC' }
    : // Without the cast, the comparison with 0 makes the parameter an integer, which does not hold every position.
      { condition: `(${start}::bigint = 0 OR ${position} < ${start}::bigint)`, direction: 'DESC' };

/**
 * Reads one page of a list that is sorted by position.
 *
 * @param sql its last two parameters are the position after which the page starts (0: from the beginning) and the limit. Large
 *   rows of a bounded query end the page early
 */
export async function readPositionPage<Row extends Positioned<QueryResultRow>>(
  db: Queryable,
  sql: string | BoundedQuery,
  values: readonly unknown[],
  { limit, cursor }: PageQuery,
): Promise<Page<Row & Bounded>> {
  const text = typeof sql === 'string' ? sql : boundedSql(sql);
  const rows = await listRows<Row & Bounded>(db, text, [...values, decodePosition(cursor), limit + 1]);
  return toPage(rows, limit, ({ position }) => position, isCutShort(rows));
}

/** Bytes of the rows of one list, so that none takes much memory or time. The row that reaches them is the last. */
const LIST_MAX_BYTES = 4 * MIB;

export interface Bounded {
  /** Total size of this row and the rows before it. */
  readonly bytesSoFar?: number;
}

interface BoundedQuery {
  readonly columns: string;
  /** The name of the rows in `columns` and `joins`. */
  readonly table: string;
  /** Lists the rows, with a LIMIT, the column of `key`, and `bytes`. */
  readonly rows: string;
  /** Joins that are made for the rows of the list only. */
  readonly joins?: string;
  /** The column that sorts the rows. Default: `position`. */
  readonly key?: 'position' | 'id';
  /** Default: ASC. */
  readonly order?: 'ASC' | 'DESC';
  /** Default: `LIST_MAX_BYTES`. */
  readonly maxBytes?: number;
}

/** Returns SQL that reads rows until they are large together. */
export const boundedSql = ({
  columns,
  table,
  rows,
  joins = '',
  key = 'position',
  order = 'ASC',
  maxBytes = LIST_MAX_BYTES,
}: BoundedQuery): string => `
  SELECT ${columns}, (bytes_before + bytes)::int AS "bytesSoFar" FROM (
    SELECT *, sum(bytes) OVER (ORDER BY listed.${key} ${order} ROWS UNBOUNDED PRECEDING) - bytes AS bytes_before
      FROM (${rows}) AS listed) AS ${table} ${joins}
   WHERE bytes_before < ${maxBytes} ORDER BY ${table}.${key} ${order}`;

/** Whether large rows ended a list of `boundedSql`. */
export const isCutShort = (rows: readonly Bounded[], maxBytes = LIST_MAX_BYTES): boolean =>
  countBytes(rows) >= maxBytes;

/** The bytes of a list of `boundedSql`. */
export const countBytes = (rows: readonly Bounded[]): number => rows.at(-1)?.bytesSoFar ?? 0;
