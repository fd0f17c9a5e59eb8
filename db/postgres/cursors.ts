/** Opaque page cursors that hold the last row's sort key, so that every page is found by index. */
import { Problem } from '../../sdk/contract/errors.ts';

/** Longer than any id, position, or path of a version's file. Characters. */
const KEY_MAX_CHARS = 1_200;

export interface Page<T> {
  readonly items: T[];
  readonly nextCursor: string | null;
}

export const mapPage = <T, Shown>({ items, nextCursor }: Page<T>, show: (item: T) => Shown): Page<Shown> => ({
  items: items.map((item) => show(item)),
  nextCursor,
});

/** A row's position, smaller than 10^18. */
const POSITION = /^\d{1,18}$/;

export const encodeCursor = (key: string): string => Buffer.from(key, 'utf8').toString('base64url');

/** Decodes the key of a cursor; null without one. @throws Problem `bad_request` for an invalid cursor */
export function decodeCursor(cursor: string | undefined): string | null {
  if (cursor === undefined || cursor === '') return null;
  const key = Buffer.from(cursor, 'base64url').toString('utf8');
  // Postgres rejects U+0000; a text that does not survive the round trip was not encoded here.
  if (!key || key.length > KEY_MAX_CHARS || key.includes('\0') || encodeCursor(key) !== cursor)
    throw createCursorProblem();
  return key;
}

/** Decodes the position of a cursor; 0 without one. @throws Problem `bad_request` for an invalid cursor */
export function decodePosition(cursor: string | undefined): string {
  const position = decodeCursor(cursor) ?? '0';
  if (!POSITION.test(position)) throw createCursorProblem();
  return position;
}

export const createCursorProblem = (
  detail = 'cursor is invalid. Use the nextCursor of a page of this list.',
): Problem => new Problem('bad_request', detail, { errors: [{ field: 'cursor', message: 'is invalid' }] });

/**
 * Turns the rows of a query with `LIMIT limit + 1` into a page.
 *
 * @param isCutShort whether others may follow although there are fewer rows
 */
export function toPage<T>(rows: T[], limit: number, keyOf: (row: T) => string, isCutShort = false): Page<T> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const isFollowed = rows.length > limit || isCutShort;
  return { items, nextCursor: isFollowed && last !== undefined ? encodeCursor(keyOf(last)) : null };
}
