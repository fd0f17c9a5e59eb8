/** Names the page in the browser's tab, history and window list, and announces it. */
import { useEffect } from 'react';
import { announce } from './announcements.ts';

const SITE = 'Bulkhead';

/** @param title as it is shown on the page */
export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · ${SITE}`;
    // Screen readers read the title when the document has loaded, which is before the first page is there, and no change of it.
    announce(title);
    return () => {
      document.title = SITE;
    };
  }, [title]);
}
