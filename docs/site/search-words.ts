/** How the search of the site takes words apart: the same when the index is made and when it is asked. */
import type { Options } from 'minisearch';

/** What one finds: a passage under a heading. */
export interface Found {
  readonly id: string;
  readonly page: string;
  readonly heading: string;
  readonly text: string;
}

const words = (text: string): string[] => text.split(/[^\p{L}\p{N}_]+/u).filter((word) => word !== '');

/** `systemPrompt` is found by itself, by `system` and by `prompt`. */
export function wordsAndTheirParts(text: string): string[] {
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
