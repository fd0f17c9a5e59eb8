/**
 * Strangers' text as it really is: terminal escapes, characters that turn text round and invisible ones are written out,
 * so that a line can neither hide a part of itself nor look like another.
 */
const TRICKS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function escapeText(text: string): string {
  return text.replaceAll(TRICKS, (char) => {
    if (char === '\r') return '';
    return `⟨U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`;
  });
}

/** Any JSON as lines that people read. */
export const formatJson = (value: unknown): string => escapeText(JSON.stringify(value, null, 2) ?? '');
