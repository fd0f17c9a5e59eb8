/** Adds copy buttons, scrolling and search to a page that also works without scripts. */
import { addCopyButtons, makeScrollable } from './code-blocks.ts';
import { installSearch } from './search.ts';

addCopyButtons();
makeScrollable();
installSearch();
// Scrolls a long list of pages to the current one.
document.querySelector('.places [aria-current]')?.scrollIntoView({ block: 'nearest' });
