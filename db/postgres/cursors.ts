/** Opaque page cursors: the last row's sort key, so that a page is found by index however deep it lies. */
import { Problem } from '../../sdk/contract/errors.ts';

/** Longest key a cursor may hold, characters: ids and positions are far shorter. */
const KEY_MAX_CHARS = 200;

export interface Page<T> {
  readonly items: T[];
  readonly nextCursor: string | null;
}

/** The cursor that continues after a key. */
export const encodeCursor = (key: string): string => Buffer.from(key, 'utf8').toString('base64url');

/** The key inside a cursor; null without one. @throws Problem `bad_request` for what is no cursor of ours */
export function decodeCursor(cursor: string | undefined): string | null {
  if (cursor === undefined || cursor === '') return null;
  const key = Buffer.from(cursor, 'base64url').toString('utf8');
  // Postgres cannot hold U+0000, and a round trip that changes the text was never made here.
  if (!key || key.length > KEY_MAX_CHARS || key.includes('\0') || encodeCursor(key) !== cursor)
    throw new Problem('bad_request', 'cursor is not one that a page of this list gave.', {
      errors: [{ field: 'cursor', message: 'unknown cursor' }],
    });
  return key;
}

/** Cuts a result that was asked for with `limit + 1` rows into a page. */
export function toPage<T>(rows: T[], limit: number, keyOf: (row: T) => string): Page<T> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, nextCursor: rows.length > limit && last !== undefined ? encodeCursor(keyOf(last)) : null };
}
