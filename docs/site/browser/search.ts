/** The search dialog, opened by its button or Ctrl+K. Fetches the index when it first opens. */
import MiniSearch from 'minisearch';
import { type Found, searchOptions } from '../search-words.ts';

const SHOWN_MAX = 20;
/** Text shown before the first match, characters. */
const EXCERPT_BEFORE = 40;
const EXCERPT_CHARS = 160;

interface Parts {
  readonly dialog: HTMLDialogElement;
  readonly input: HTMLInputElement;
  readonly list: HTMLUListElement;
  readonly count: HTMLElement;
}

export function installSearch(): void {
  const dialog = document.querySelector<HTMLDialogElement>('dialog.search');
  const button = document.querySelector<HTMLButtonElement>('.search-button');
  const input = dialog?.querySelector('input');
  const list = dialog?.querySelector('ul');
  const count = dialog?.querySelector<HTMLElement>('.count');
  if (!dialog || !button || !input || !list || !count) return;
  const parts: Parts = { dialog, input, list, count };
  let index: Promise<MiniSearch<Found>> | undefined;
  const show = () => {
    if (dialog.open) return;
    dialog.showModal();
    input.select();
    index ??= fetchIndex();
  };
  const search = async () => {
    const searched = input.value;
    const found = await index?.catch(() => null);
    // Ignore results for a text that has changed since.
    if (searched === input.value) showResults(parts, found ?? null, searched);
  };
  button.hidden = false;
  button.addEventListener('click', show);
  dialog.querySelector('.close')?.addEventListener('click', () => dialog.close());
  dialog.addEventListener('click', ({ target }) => target === dialog && dialog.close());
  input.addEventListener('input', () => void search());
  input.addEventListener('keydown', (event) => moveSelection(parts, event));
  document.addEventListener('keydown', (event) => {
    // With a modifier: a bare character is also sent by speech input and by keys that a tremor presses (WCAG 2.1.4).
    const isShortcut = event.key === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey;
    if (!isShortcut || (event.target instanceof HTMLElement && event.target.matches('input, textarea'))) return;
    event.preventDefault();
    show();
  });
}

async function fetchIndex(): Promise<MiniSearch<Found>> {
  const response = await fetch(document.body.dataset.search ?? '');
  return MiniSearch.loadJSONAsync(await response.text(), searchOptions);
}

function showResults({ list, count, input }: Parts, index: MiniSearch<Found> | null, searched: string): void {
  const found = index?.search(searched) ?? [];
  const shown = found.slice(0, SHOWN_MAX);
  list.replaceChildren(...shown.map((one, at) => makeOption(one as unknown as Found, Object.keys(one.match), at)));
  input.setAttribute('aria-expanded', String(shown.length > 0));
  selectOption(list, input, 0);
  if (index === null) count.textContent = 'The search could not be loaded. Reload the page to try again.';
  else if (searched.trim() === '') count.textContent = '';
  else if (found.length === 0) count.textContent = 'Nothing found. Try fewer or other words.';
  else count.textContent = `${found.length} found${found.length > SHOWN_MAX ? `, the best ${SHOWN_MAX} shown` : ''}`;
}

function makeOption({ id, page, heading, text }: Found, words: readonly string[], at: number): HTMLLIElement {
  const item = document.createElement('li');
  item.role = 'option';
  item.id = `found-${at}`;
  item.dataset.href = id;
  const title = document.createElement('strong');
  title.textContent = heading;
  const place = document.createElement('span');
  place.textContent = page === heading ? '' : page;
  const excerpt = document.createElement('p');
  excerpt.append(...markWords(createExcerpt(text, words), words));
  item.append(title, ' ', place, excerpt);
  item.addEventListener('click', () => openResult(item));
  return item;
}

/** The part of a text around the first matching word. */
function createExcerpt(text: string, words: readonly string[]): string {
  const low = text.toLowerCase();
  const places = words.map((word) => low.indexOf(word)).filter((place) => place >= 0);
  const start = Math.max(0, Math.min(...places, text.length) - EXCERPT_BEFORE);
  const from = places.length === 0 || start === 0 ? 0 : text.indexOf(' ', start) + 1;
  return `${from > 0 ? '…' : ''}${text.slice(from, from + EXCERPT_CHARS)}`;
}

function markWords(text: string, words: readonly string[]): (Node | string)[] {
  if (words.length === 0) return [text];
  // A word has only letters, digits and underscores, which need no escape.
  const pattern = new RegExp(`(${words.join('|')})`, 'giu');
  return text.split(pattern).map((part, at) => {
    if (at % 2 === 0) return part;
    const mark = document.createElement('mark');
    mark.textContent = part;
    return mark;
  });
}

function moveSelection({ list, input }: Parts, event: KeyboardEvent): void {
  // Enter and the arrows belong to the input method while it composes a word.
  if (event.isComposing) return;
  const options = [...list.children];
  const at = options.findIndex((one) => one.ariaSelected === 'true');
  const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
  if (to !== undefined) {
    event.preventDefault();
    selectOption(list, input, (to + options.length) % Math.max(1, options.length));
  }
  const chosen = options[at];
  if (event.key === 'Enter' && chosen instanceof HTMLElement) openResult(chosen);
}

function selectOption(list: HTMLUListElement, input: HTMLInputElement, at: number): void {
  [...list.children].forEach((one, index) => {
    one.ariaSelected = String(index === at);
    if (index === at) one.scrollIntoView({ block: 'nearest' });
  });
  const chosen = list.children[at];
  if (chosen) input.setAttribute('aria-activedescendant', chosen.id);
  else input.removeAttribute('aria-activedescendant');
}

function openResult(item: HTMLElement): void {
  item.closest('dialog')?.close();
  location.assign(item.dataset.href ?? '');
}
