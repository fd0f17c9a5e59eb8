/** Escapes text for a cell of a table in Markdown. */
export const escapeCell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
