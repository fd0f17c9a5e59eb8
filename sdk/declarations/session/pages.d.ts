/** Reads lists that come in pages. */
import type { Page } from './api-types.js';
/** Yields the items of all pages. @param read given the cursor of a page, and nothing for the first one */
export declare function readPages<Item>(read: (query: {
    readonly cursor?: string;
}) => Promise<Page<Item>>): AsyncGenerator<Item>;
