/** Announcements of screen readers: which page has come, and what a search has found. The frame shows them, hidden from sight. */
import { useEffect, useRef } from 'react';

interface Announcement {
  readonly text: string;
  /** Counts them, because two in a row may have the same text. */
  readonly number: number;
}

let latest: Announcement = { text: '', number: 0 };
const listeners = new Set<() => void>();

export function announce(text: string): void {
  latest = { text, number: latest.number + 1 };
  for (const listener of [...listeners]) listener();
}

export const readAnnouncement = (): Announcement => latest;

/** For `useSyncExternalStore`. */
export function subscribeToAnnouncements(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * Announces what the user's search or filter has found. The first result comes with its page, which is announced itself.
 *
 * @param search changes with each search
 * @param result null: not there yet
 */
export function useAnnouncedResult(search: string, result: string | null): void {
  const last = useRef<string | null>(null);
  useEffect(() => {
    if (result === null || last.current === search) return;
    if (last.current !== null) announce(result);
    last.current = search;
  }, [search, result]);
}
