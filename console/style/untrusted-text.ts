/**
 * Shows untrusted text literally: escapes, direction overrides and invisible characters are printed as codes, so that a
 * line cannot hide a part of itself or look like another.
 */
import { replaceHiddenCharacters } from '../../sdk/contract/visible-text.ts';

export const escapeText = (text: string): string => replaceHiddenCharacters(text, 'lines', formatCode);

const formatCode = (character: string): string =>
  `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`;

/** Formats any JSON for people. */
export const formatJson = (value: unknown): string => escapeText(JSON.stringify(value, null, 2) ?? '');
