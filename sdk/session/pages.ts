/** Reads lists that come in pages. */
import type { Page } from './api-types.ts';

/** Yields the items of all pages. @param read reads the page with this cursor; without a cursor, the first page */
export async function* readPages<Item>(
  read: (query: { readonly cursor?: string }) => Promise<Page<Item>>,
): AsyncGenerator<Item> {
  let page = await read({});
  yield* page.items;
  while (page.nextCursor) {
    page = await read({ cursor: page.nextCursor });
    yield* page.items;
  }
}
