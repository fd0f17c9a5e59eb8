/**
 * Shows untrusted text literally: escapes, direction overrides and invisible characters are printed as codes, so that a
 * line cannot hide a part of itself or look like another.
 */
import { nameCharacter, replaceHiddenCharacters } from '../../sdk/contract/visible-text.ts';

export const escapeText = (text: string): string =>
  replaceHiddenCharacters(text, 'lines', (character) => `⟨${nameCharacter(character)}⟩`);

/** Escapes one line and ends it. A carriage return at its end is a part of its line break, and not shown. */
export const escapeLine = (text: string): string => escapeText(`${text}\n`);

/** Formats any JSON for people. */
export const formatJson = (value: unknown): string => escapeText(JSON.stringify(value, null, 2) ?? '');
