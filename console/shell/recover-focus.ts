/**
 * Moves the focus when the focused element is removed, or disabled by its action. The browser would move it to `<body>`, and a
 * keyboard user would start again at the top of the page.
 */

/** A dialog that closes has by then returned the focus to the button that opened it, milliseconds. */
const RECOVER_AFTER_MS = 50;
const BUTTONS = 'button:not(:disabled), a[href]';
const DIALOG = '[role=dialog]';
const AREAS = `${DIALOG}, section, [role=tabpanel], main`;
const HEADINGS = 'h1, h2, h3';
/** What a user fills in. */
export const FIELD = ':is(input, select, textarea):not(:disabled, [readonly], [type=hidden])';
/** A button whose action runs. */
const RUNNING = ':disabled[data-loading]';

/** Where an element was. */
interface Place {
  readonly element: Element;
  /** Nearest first. */
  readonly ancestors: readonly Element[];
  /** Position among the buttons of its parent. */
  readonly index: number;
}

let last: Place | null = null;
/** Where the focus was before it went into a dialog. */
let opener: Place | null = null;
let wasDisabled = false;
let timer: ReturnType<typeof setTimeout> | undefined;

export function recoverLostFocus(): void {
  document.addEventListener('focusin', ({ target }) => {
    wasDisabled = false;
    last = target instanceof Element ? describePlace(target) : null;
    if (last !== null && last.element.closest(DIALOG) === null) opener = last;
  });
  // A click outside the focused element takes the focus away on purpose.
  document.addEventListener(
    'pointerdown',
    ({ target }) => {
      if (!(target instanceof Node && last?.element.contains(target))) last = null;
    },
    { capture: true },
  );
  const changes = { childList: true, subtree: true, attributeFilter: ['disabled', 'data-loading'] };
  new MutationObserver(scheduleRecovery).observe(document.body, changes);
}

function describePlace(element: Element): Place {
  const ancestors: Element[] = [];
  for (let parent = element.parentElement; parent; parent = parent.parentElement) ancestors.push(parent);
  return { element, ancestors, index: [...(ancestors[0]?.querySelectorAll(BUTTONS) ?? [])].indexOf(element) };
}

function scheduleRecovery(): void {
  if (last === null) return;
  if (last.element.matches(':disabled')) wasDisabled = true;
  if (last.element.isConnected && !wasDisabled) return;
  if (timer === undefined) timer = setTimeout(recover, RECOVER_AFTER_MS);
}

function recover(): void {
  timer = undefined;
  if (last === null || (document.activeElement !== null && document.activeElement !== document.body)) return;
  const { element } = last;
  // The end of its action changes the button again.
  if (element.isConnected && element.matches(RUNNING)) return;
  const target = findTarget(last);
  if (!(target instanceof HTMLElement)) return;
  if (target.tabIndex < 0) target.tabIndex = -1;
  target.focus({ preventScroll: true });
  // What took the place of a tall element may be out of sight. The page's title did not take its place.
  if (!target.matches('main, h1')) target.scrollIntoView({ block: 'nearest' });
}

function findTarget(place: Place): Element | null {
  if (place.element.isConnected && !place.element.matches(':disabled')) return place.element;
  // A button that stays disabled after its action, such as one that sends a text, waits for what its user fills in next.
  const field = place.element.isConnected ? place.element.closest('form')?.querySelector(FIELD) : null;
  if (field) return field;
  // A dialog has closed whose button the page had replaced by then, so the dialog could not return the focus to it.
  const isOfClosedDialog = place.ancestors.some((ancestor) => ancestor.matches(DIALOG) && !ancestor.isConnected);
  const isDialogOpen = document.querySelector(DIALOG) !== null;
  if (!isOfClosedDialog || isDialogOpen || opener === null) return findSuccessor(place);
  return opener.element.isConnected ? opener.element : findSuccessor(opener);
}

/** Finds the button that replaced the element, or the heading of the section that it was in. */
function findSuccessor({ ancestors, index }: Place): Element | null {
  const [parent] = ancestors;
  if (parent?.isConnected) {
    const buttons = parent.querySelectorAll(BUTTONS);
    const button = buttons[Math.min(Math.max(index, 0), buttons.length - 1)];
    if (button) return button;
  }
  const area = ancestors.find((ancestor) => ancestor.isConnected && ancestor.matches(AREAS));
  const place = area ?? document.querySelector(DIALOG) ?? document.querySelector('main');
  return place?.matches('[role=tabpanel]') ? place : (place?.querySelector(HEADINGS) ?? place ?? null);
}
