/** Returns a list whole unless the request asks for a page: a client needs all tools of a session at once. */
import { createCursorProblem, decodeCursor, encodeCursor, type Page } from '../../db/postgres/cursors.ts';
import { LIMIT_DEFAULT, type WholeListQuery } from './schemas.ts';

/** The position of the last item of a page, and its name. */
const CURSOR_KEY = /^(\d{1,9}) (.+)$/s;

/**
 * Returns the page that the request asks for, or else the whole list.
 *
 * @param nameOf the item's name, by which the next page is found although items before it were added or removed meanwhile
 * @throws Problem `bad_request` for an invalid cursor, or one whose item is gone
 */
export function pageWholeList<T>(list: T[], query: WholeListQuery, nameOf: (item: T) => string): Page<T> {
  const { limit = LIMIT_DEFAULT, cursor } = query;
  if (query.limit === undefined && cursor === undefined) return { items: list, nextCursor: null };
  const start = findStart(list, decodeCursor(cursor), nameOf);
  const end = start + limit;
  const last = list[end - 1];
  const isFollowed = last !== undefined && list.length > end;
  return { items: list.slice(start, end), nextCursor: isFollowed ? encodeCursor(`${end - 1} ${nameOf(last)}`) : null };
}

/** @param key of the last item that the client has; null: it has none */
function findStart<T>(list: readonly T[], key: string | null, nameOf: (item: T) => string): number {
  if (key === null) return 0;
  const [, digits, name] = CURSOR_KEY.exec(key) ?? [];
  if (digits === undefined) throw createCursorProblem();
  const position = Number(digits);
  const there = list[position];
  if (there !== undefined && nameOf(there) === name) return position + 1;
  const moved = list.findIndex((item) => nameOf(item) === name);
  // More than this item may be gone, so its position can be behind items that the client has not read.
  if (moved < 0) throw createCursorProblem('The list changed. Read it again from the start.');
  return moved + 1;
}
