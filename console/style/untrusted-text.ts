/**
 * Shows untrusted text literally: escapes, direction overrides and invisible characters are printed as codes, so that a
 * line cannot hide a part of itself or look like another.
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

/** Formats any JSON for people. */
export const formatJson = (value: unknown): string => escapeText(JSON.stringify(value, null, 2) ?? '');
