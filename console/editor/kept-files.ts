/** Keeps the unsaved files of each plugin in this browser until they are saved or discarded. */
import type { TextFile } from '../authoring/package-files.ts';

interface KeptFiles {
  /** Milliseconds since 1970. */
  readonly keptAt: number;
  readonly files: readonly TextFile[];
  /** Hash of the draft that the user edited. Null: the plugin had none. Absent: kept by an older console. */
  readonly draftSha256?: string | null;
}

const nameKey = (pluginId: string): string => `bulkhead.unsaved.${pluginId}`;

/** @returns false if this browser has no room or stores nothing */
export function keepFiles(pluginId: string, unsaved: Omit<KeptFiles, 'keptAt'>): boolean {
  const kept: KeptFiles = { keptAt: Date.now(), ...unsaved };
  try {
    localStorage.setItem(nameKey(pluginId), JSON.stringify(kept));
    return true;
  } catch {
    // An older copy would be offered as the newest text.
    forgetFiles(pluginId);
    return false;
  }
}

export function readKeptFiles(pluginId: string): KeptFiles | null {
  try {
    return JSON.parse(localStorage.getItem(nameKey(pluginId)) ?? 'null') as KeptFiles | null;
  } catch {
    return null;
  }
}

export function forgetFiles(pluginId: string): void {
  try {
    localStorage.removeItem(nameKey(pluginId));
  } catch {
    // The browser stores nothing.
  }
}
