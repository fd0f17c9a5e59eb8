/** How the search splits words: the same when the index is built and when it is queried. */
import type { Options } from 'minisearch';

/** A search result: the text under one heading. */
export interface Found {
  readonly id: string;
  readonly page: string;
  readonly heading: string;
  readonly text: string;
}

const words = (text: string): string[] => text.split(/[^\p{L}\p{N}_]+/u).filter((word) => word !== '');

/** `systemPrompt` matches `systemPrompt`, `system` and `prompt`. */
function wordsAndTheirParts(text: string): string[] {
  return words(text).flatMap((word) => {
    const parts = word.split(/(?<=[a-z0-9])(?=[A-Z])|_/).filter((part) => part !== '');
    return parts.length > 1 ? [word, ...parts] : [word];
  });
}

export const searchOptions: Options<Found> = {
  fields: ['heading', 'page', 'text'],
  storeFields: ['page', 'heading', 'text'],
  tokenize: wordsAndTheirParts,
  searchOptions: {
    tokenize: words,
    prefix: true,
    fuzzy: (word) => (word.length > 4 ? 0.2 : false),
    boost: { heading: 4, page: 2 },
    combineWith: 'AND',
  },
};
