/** Reads lists that come in pages. */
import type { Page } from './api-types.js';
/** Yields the items of all pages. @param read reads the page with this cursor; without a cursor, the first page */
export declare function readPages<Item>(read: (query: {
    readonly cursor?: string;
}) => Promise<Page<Item>>): AsyncGenerator<Item>;
