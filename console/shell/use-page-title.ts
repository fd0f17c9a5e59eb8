/** Names the page in the browser's tab, history and window list. */
import { useEffect } from 'react';

const SITE = 'Bulkhead';

/** @param title as it is shown on the page */
export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · ${SITE}`;
    return () => {
      document.title = SITE;
    };
  }, [title]);
}
