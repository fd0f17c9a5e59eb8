/** Remembers in this browser what a draft was made from: the service stores its files only. */
import type { Source } from './source.ts';

interface DraftBase {
  readonly draftSha256: string;
  /** Null: a template. */
  readonly base: Source | null;
}

const getKey = (pluginId: string): string => `bulkhead.draft-base.${pluginId}`;

export function rememberBase(pluginId: string, remembered: DraftBase): void {
  try {
    localStorage.setItem(getKey(pluginId), JSON.stringify(remembered));
  } catch {
    // The browser stores nothing: the next visit takes the time of the draft.
  }
}

/** Returns what the stored files were made from: the files themselves if nothing else is known. */
export function findBase(pluginId: string, source: Source | null): Source | null {
  try {
    const remembered = JSON.parse(localStorage.getItem(getKey(pluginId)) ?? 'null') as DraftBase | null;
    const isSame = remembered !== null && source?.semVer === null && remembered.draftSha256 === source.sourceSha256;
    return isSame ? remembered.base : source;
  } catch {
    return source;
  }
}
