/** Keeps the unsaved files of each open editor in this browser until they are saved or discarded. */
import { hasSameFiles, type TextFile } from '../authoring/package-files.ts';
import { createRandomId } from '../rest/random-id.ts';
import type { Source } from './source.ts';

interface KeptFiles {
  /** Milliseconds since 1970. */
  readonly keptAt: number;
  readonly files: readonly TextFile[];
  /** Hash of the draft that the user edited. Null: the plugin had none. Absent: kept by an older console. */
  readonly draftSha256?: string | null;
  /** What the files were made from. Null: a template. Absent: kept by an older console. */
  readonly source?: Source | null;
}

/** Where one open editor keeps its unsaved files. No other editor writes or removes them meanwhile. */
export interface OpenCopy {
  readonly key: string;
  /** The files that an editor left behind. */
  readonly kept: KeptFiles | null;
}

/**
 * Opens the newest copy that no open editor holds, or an empty one.
 *
 * @param closed releases the copy to other editors
 */
export async function openCopy(pluginId: string, closed: AbortSignal): Promise<OpenCopy> {
  const prefix = `bulkhead.unsaved.${pluginId}`;
  for (const key of listKeys(prefix)) {
    if (await holdCopy(key, closed)) return { key, kept: readKeptFiles(key) };
  }
  const key = `${prefix}.${createRandomId()}`;
  await holdCopy(key, closed);
  return { key, kept: null };
}

/** Without files that are stored by now, such as by a save whose page was left before its answer: a save of older ones would be refused. */
export const omitStored = ({ key, kept }: OpenCopy, stored: readonly TextFile[]): OpenCopy => ({
  key,
  kept: kept !== null && hasSameFiles(kept.files, stored) ? null : kept,
});

/** Newest first. */
function listKeys(prefix: string): string[] {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(prefix));
    const keptAt = (key: string) => readKeptFiles(key)?.keptAt ?? 0;
    return keys.sort((a, b) => keptAt(b) - keptAt(a));
  } catch {
    // The browser stores nothing.
    return [];
  }
}

/** @returns false if another tab has it open. Browsers without HTTPS have no locks: there, each copy counts as left behind. */
function holdCopy(key: string, closed: AbortSignal): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const hold = async (lock: Lock | null): Promise<void> => {
    resolve(lock !== null);
    if (lock === null || closed.aborted) return;
    await new Promise((release) => closed.addEventListener('abort', release));
  };
  const { locks } = navigator as { readonly locks?: LockManager };
  if (locks) locks.request(key, { ifAvailable: true }, hold).catch(() => resolve(true));
  else resolve(true);
  return promise;
}

/** @returns false if this browser has no room or stores nothing */
export function keepFiles(key: string, unsaved: Omit<KeptFiles, 'keptAt'>): boolean {
  const kept: KeptFiles = { keptAt: Date.now(), ...unsaved };
  try {
    localStorage.setItem(key, JSON.stringify(kept));
    return true;
  } catch {
    // An older copy would be offered as the newest text.
    forgetFiles(key);
    return false;
  }
}

function readKeptFiles(key: string): KeptFiles | null {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null') as KeptFiles | null;
  } catch {
    return null;
  }
}

export function forgetFiles(key: string): void {
  try {
    localStorage.removeItem(key);
  } catch {
    // The browser stores nothing.
  }
}
