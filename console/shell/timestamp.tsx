/** Shows a time: without its date if it is today, and in full as the title. */
import { type ReactNode, useSyncExternalStore } from 'react';

/** How late a page may notice that the day has changed, for example after the computer slept. Milliseconds. */
const DAY_CHECK_MS = 60_000;

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

function formatAsOfToday(at: string): string {
  const date = new Date(at);
  return (date.toDateString() === new Date().toDateString() ? CLOCK : FULL).format(date);
}

const listeners = new Set<() => void>();
setInterval(() => {
  for (const listener of listeners) listener();
}, DAY_CHECK_MS);
const subscribeToClock = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/**
 * Returns a function that formats a time for a text, such as a label. Renders the caller once more when the day has changed: data that
 * stays the same renders nothing.
 */
export function useTimestampFormat(): (at: string) => string {
  useSyncExternalStore(subscribeToClock, () => new Date().toDateString());
  return formatAsOfToday;
}

export function Timestamp({ at, none = '–' }: { readonly at: string | null; readonly none?: string }): ReactNode {
  const formatTimestamp = useTimestampFormat();
  if (at === null) return none;
  return (
    <time dateTime={at} title={FULL.format(new Date(at))}>
      {formatTimestamp(at)}
    </time>
  );
}
