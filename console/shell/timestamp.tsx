/** Shows a time: without its date if it is today, and in full as the title. */
import type { ReactNode } from 'react';

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

export function formatTimestamp(at: string): string {
  const date = new Date(at);
  return (date.toDateString() === new Date().toDateString() ? CLOCK : FULL).format(date);
}

export function Timestamp({ at, none = '–' }: { readonly at: string | null; readonly none?: string }): ReactNode {
  if (at === null) return none;
  return (
    <time dateTime={at} title={FULL.format(new Date(at))}>
      {formatTimestamp(at)}
    </time>
  );
}
