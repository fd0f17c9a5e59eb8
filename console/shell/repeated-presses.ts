/**
 * The rest of a double click, or of a key that is held down, presses only the button that it began on. The action may have put
 * another one in its place by then, such as Resume where Pause was.
 */

/** Not icons: the arrows of a list and the close buttons of messages are pressed in quick succession. */
const BUTTON = '.mantine-Button-root';

/** Where the first click was. Null: not on a button. */
let pressed: Element | null = null;

export function ignoreRepeatedPresses(): void {
  document.addEventListener(
    'click',
    (event) => {
      const button = event.target instanceof Element ? event.target.closest(BUTTON) : null;
      // The number of clicks at this place in quick succession. 0: by keyboard or by code.
      if (event.detail <= 1) pressed = button;
      else if (button !== null && button !== pressed) stop(event);
    },
    { capture: true },
  );
  document.addEventListener(
    'keydown',
    (event) => {
      const isPress = event.key === 'Enter' || event.key === ' ';
      if (isPress && event.repeat && event.target instanceof Element && event.target.matches(BUTTON)) stop(event);
    },
    { capture: true },
  );
}

/** Before React hears it. */
function stop(event: Event): void {
  event.preventDefault();
  event.stopPropagation();
}
