/**
 * Shows untrusted text literally: escapes, direction overrides and invisible characters are printed as codes, so that a
 * line cannot hide a part of itself or look like another.
 */
const TRICKS = /(?!\t|\n|\uFE0E|\uFE0F)[\p{Cc}\p{Cs}\p{Default_Ignorable_Code_Point}\u2028\u2029\uFFF9-\uFFFB]/gu;

export function escapeText(text: string): string {
  return text.replaceAll(TRICKS, (char) => {
    if (char === '\r') return '';
    return `⟨U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`;
  });
}

/** Formats any JSON for people. */
export const formatJson = (value: unknown): string => escapeText(JSON.stringify(value, null, 2) ?? '');
