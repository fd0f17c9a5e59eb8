/** What makes a page handier. Without it everything can be read just the same. */
import { addCopyButtons, makeScrollable } from './code-blocks.ts';
import { openSearch } from './search.ts';

addCopyButtons();
makeScrollable();
openSearch();
// In a long list of pages, the one that is open.
document.querySelector('.places [aria-current]')?.scrollIntoView({ block: 'nearest' });
