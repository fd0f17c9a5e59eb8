/** Makes text of plugins and services safe to print on a terminal. */

/**
 * Everything but line breaks and tabs that moves the cursor, talks to the terminal, or changes what a reader sees: control
 * characters, lone surrogates, direction and invisible characters. Joiners stay, because words and emoji need them.
 */
const UNSAFE =
  /(?![\n\t])[\p{Cc}\p{Cs}\u00AD\u061C\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF\uFFF9-\uFFFB\u{E0000}-\u{E007F}]/gu;

/** Replaces each unsafe character by its escape, such as `\u001b`. In the text of a JSON document, the value stays the same. */
export const escapeUnsafe = (text: string): string =>
  text.replace(UNSAFE, (found) =>
    [...Array(found.length).keys()].map((at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  );

/** Makes one line of a text, for a place where a second line could pass as a line of the program. */
export const toOneLine = (text: string): string => text.replace(/\s*[\r\n]+\s*/g, ' ');
