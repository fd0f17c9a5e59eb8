/** Keeps unsaved files in this browser while the user types, and when the page goes away. */
import { useEffect, useEffectEvent, useRef } from 'react';
import type { TextFile } from '../authoring/package-files.ts';
import { forgetFiles, keepFiles } from './kept-files.ts';
import type { Source } from './source.ts';

/** Pause after a keystroke: long packages are not written at each of a fast series. Milliseconds. */
const PAUSE_MS = 200;

interface EditorState {
  readonly files: readonly TextFile[];
  /** Whether the files differ from the stored ones. */
  readonly isUnsaved: boolean;
  /** What the files were made from. Null: a template. */
  readonly source: Source | null;
  /** Hash of the draft that the user edited. Null: the plugin had none. */
  readonly draftSha256: string | null;
}

/**
 * @param key the copy of this editor
 * @param readUnsaved returns the files with the last keystrokes, which `files` may not have yet; null: nothing is unsaved
 * @returns a function that keeps the newest files now; false: they could not be kept
 */
export function useKeptFiles(
  key: string,
  { files, isUnsaved, source, draftSha256 }: EditorState,
  readUnsaved: () => readonly TextFile[] | null,
): () => boolean {
  const kept = useRef({ files, draftSha256, source });
  const keep = useEffectEvent((): boolean => {
    const unsaved = readUnsaved();
    if (unsaved === null) {
      forgetFiles(key);
      return true;
    }
    const { current } = kept;
    // While a save runs, the user goes on typing: with the hash of the draft before it, the next save would be refused.
    if (unsaved === current.files && draftSha256 === current.draftSha256 && source === current.source) return true;
    if (!keepFiles(key, { files: unsaved, draftSha256, source })) return false;
    kept.current = { files: unsaved, draftSha256, source };
    return true;
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: keeps each change of the files, and of what they were made from
  useEffect(() => {
    const timer = setTimeout(keep, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [files, isUnsaved, draftSha256, source]);
  useEffect(() => {
    const flush = () => void keep();
    addEventListener('pagehide', flush);
    return () => {
      removeEventListener('pagehide', flush);
      flush();
    };
  }, []);
  return keep;
}
