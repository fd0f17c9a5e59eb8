/** The HTML around each page: navigation, headings and search. */
import { escapeHtml } from './code.ts';
import { renderLine } from './markdown.ts';
import { COOKBOOK } from './pages.ts';
import type { Page, Site } from './site.ts';

/** Addresses of the files that every page loads. */
export interface Assets {
  readonly style: string;
  /** Script that sets the colour scheme before the first paint. */
  readonly scheme: string;
  readonly script: string;
  readonly searchIndex: string;
  readonly icon: string;
}

/** Pages with fewer headings show no list of them. */
const HEADINGS_MIN = 3;
const RECIPES = '/docs/cookbook/';

/** A whole HTML page. */
export function layOut(page: Page, site: Site, assets: Assets, release: string): string {
  const at = site.pages.indexOf(page);
  const body = page.href === '/docs' ? frontPage(page, site) : page.html;
  const around = at < 0 ? '' : previousAndNext(site.pages[at - 1], site.pages[at + 1]);
  const from = page.file === '' ? '' : ` · made from <code>${escapeHtml(page.file)}</code>`;
  return frame(
    page,
    site,
    assets,
    `<article>\n${body}</article>\n${around}
<footer><p>Bulkhead ${escapeHtml(release)}${from}</p></footer>`,
  );
}

function frame(page: Page, site: Site, assets: Assets, main: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="${escapeHtml(page.description)}">
<title>${escapeHtml(pageTitle(page))}</title>
<link rel="icon" type="image/svg+xml" href="${assets.icon}">
<link rel="stylesheet" href="${assets.style}">
<script src="${assets.scheme}"></script>
<script type="module" src="${assets.script}"></script>
</head>
<body data-search="${assets.searchIndex}">
<a class="skip-link" href="#page">Skip to the page</a>
<header class="top">
<button class="menu" type="button" popovertarget="places" aria-label="Menu"><span aria-hidden="true">☰</span></button>
<a class="home" href="/docs"><img src="${assets.icon}" alt="" width="28" height="28"><span>Bulkhead <span class="docs">docs</span></span></a>
<button class="search-button" type="button" hidden>Search <kbd>Ctrl K</kbd></button>
<a class="console" href="/">Console</a>
</header>
<nav class="places" id="places" popover aria-label="Pages">
${site.sections.map(({ title, places }) => navSection(title, places, page, site)).join('\n')}
</nav>
<main id="page" tabindex="-1">
${main}
</main>
${onThisPage(page)}
${SEARCH}
</body>
</html>
`;
}

const pageTitle = ({ href, title, section }: Page): string =>
  href === '/docs' ? 'Bulkhead documentation' : `${[title, section].filter(Boolean).join(' · ')} · Bulkhead docs`;

function navSection(title: string, places: Site['sections'][number]['places'], page: Page, site: Site): string {
  const entries = places.map((place) => {
    const inside = place.file === COOKBOOK && page.href.startsWith('/docs/cookbook') ? recipeList(page, site) : '';
    return `<li>${navLink(place, page)}${inside}</li>`;
  });
  return `<h2>${escapeHtml(title)}</h2>\n<ul>${entries.join('')}</ul>`;
}

const recipeList = (page: Page, site: Site): string => {
  const recipes = site.pages.filter(({ href }) => href.startsWith(RECIPES));
  return `<ul>${recipes.map((one) => `<li>${navLink(one, page)}</li>`).join('')}</ul>`;
};

const navLink = ({ href, title }: { href: string; title: string }, page: Page): string =>
  `<a href="${href}"${href === page.href ? ' aria-current="page"' : ''}>${escapeHtml(title)}</a>`;

function frontPage({ html }: Page, { sections }: Site): string {
  const introduction = html.slice(0, html.indexOf('<h2'));
  const cards = sections.map(({ title, places }) => {
    const entries = places.map(
      (one) => `<li><a href="${one.href}">${escapeHtml(one.title)}</a><p>${renderLine(one.description)}</p></li>`,
    );
    return `<section><h2>${escapeHtml(title)}</h2>\n<ul class="cards">${entries.join('\n')}</ul></section>`;
  });
  return `${introduction}\n${cards.join('\n')}\n`;
}

function previousAndNext(before: Page | undefined, after: Page | undefined): string {
  const link = (to: Page | undefined, side: 'previous' | 'next') =>
    to === undefined
      ? ''
      : `<a class="${side}" rel="${side === 'next' ? 'next' : 'prev'}" href="${to.href}"><span>${side === 'next' ? 'Next' : 'Previous'}</span> ${escapeHtml(to.title)}</a>`;
  return `<nav class="neighbours" aria-label="Previous and next">${link(before, 'previous')}${link(after, 'next')}</nav>`;
}

function onThisPage({ headings, href }: Page): string {
  const shown = headings.filter(({ level }) => level === 2 || level === 3);
  if (shown.length < HEADINGS_MIN || href === '/docs') return '';
  const entries = shown.map(
    ({ id, level, text }) => `<li class="level-${level}"><a href="#${escapeHtml(id)}">${escapeHtml(text)}</a></li>`,
  );
  return `<nav class="headings" aria-label="On this page"><p>On this page</p><ul>${entries.join('')}</ul></nav>`;
}

const SEARCH = `<dialog class="search" aria-label="Search">
<div class="search-box">
<input type="search" role="combobox" aria-label="Search the documentation" aria-expanded="false" aria-controls="found"
 aria-autocomplete="list" autocomplete="off" spellcheck="false" placeholder="Search the documentation">
<button type="button" class="close">Close</button>
</div>
<p class="count" role="status"></p>
<ul class="found" id="found" role="listbox" aria-label="Found"></ul>
</dialog>`;
