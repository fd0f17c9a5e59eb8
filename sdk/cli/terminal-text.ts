/** Makes text of plugins and services safe to print on a terminal. */
import { escapeCharacter, replaceHiddenCharacters } from '../contract/visible-text.ts';

/**
 * Replaces each character that moves the cursor, talks to the terminal or cannot be seen by its escape, such as `\u001b`.
 * In the text of a JSON document, the value stays the same.
 */
export const escapeUnsafe = (text: string): string => replaceHiddenCharacters(text, 'lines', escapeCharacter);

/** Quotes a word for a command line that the user pastes into a shell. */
export const quoteForShell = (word: string): string =>
  /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

/** Makes one line of a text, for a place where a second line could pass as a line of the program. */
export const toOneLine = (text: string): string =>
  text.replace(/\s+/g, (space) => (/[\r\n]/.test(space) ? ' ' : space));

/** Indents all lines but the first, so that none looks like a line of the command. */
export const indentLines = (text: string): string => text.replace(/\r?\n/g, '\n    ');
