/**
 * The rest of a double click, or of a key that is held down, presses only the button that it began on. The action may have put
 * another one in its place by then, such as Resume where Pause was.
 */

/** Not icons: the arrows of a list and the close buttons of messages are pressed in quick succession. */
const BUTTON = '.mantine-Button-root';

/** Where a key that is held down repeats on purpose: in texts, and on the arrows of a list. */
const REPEATABLE = 'textarea, [contenteditable], .monaco-editor *, .mantine-ActionIcon-root';

/** The button of the first click. Null: the first click was beside all buttons, so a further one repeats no press. */
let pressed: Element | null = null;

export function ignoreRepeatedPresses(): void {
  document.addEventListener(
    'click',
    (event) => {
      const button = event.target instanceof Element ? event.target.closest(BUTTON) : null;
      // The number of clicks at this place in quick succession. 0: by keyboard or by code.
      if (event.detail <= 1) pressed = button;
      else if (pressed !== null && button !== null && button !== pressed) ignoreEvent(event);
    },
    { capture: true },
  );
  document.addEventListener(
    'keydown',
    (event) => {
      if (!event.repeat || !(event.target instanceof Element)) return;
      // Enter in a field sends its form, as in a dialog that the same press has opened.
      const isEnter = event.key === 'Enter' && !event.target.matches(REPEATABLE);
      if (isEnter || (event.key === ' ' && event.target.matches(BUTTON))) ignoreEvent(event);
    },
    { capture: true },
  );
}

/** Keeps the event from the browser's own action and from React's listeners. */
function ignoreEvent(event: Event): void {
  event.preventDefault();
  event.stopPropagation();
}
