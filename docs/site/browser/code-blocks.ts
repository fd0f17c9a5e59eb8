/** Buttons that copy code, and blocks that the keyboard can scroll where they are wider than the page. */

/** So long a button says that it did its work, milliseconds. */
const SAID_MS = 2_000;

export function addCopyButtons(): void {
  // Without a safe origin there is no clipboard.
  if (!navigator.clipboard) return;
  for (const block of document.querySelectorAll<HTMLElement>('.code')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.addEventListener('click', () => void copy(block.querySelector('code')?.textContent ?? '', button));
    block.append(button);
  }
}

async function copy(text: string, button: HTMLButtonElement): Promise<void> {
  const done = await navigator.clipboard.writeText(text).then(
    () => 'Copied',
    () => 'Not copied',
  );
  button.textContent = done;
  setTimeout(() => {
    button.textContent = 'Copy';
  }, SAID_MS);
}

export function makeScrollable(): void {
  const blocks = document.querySelectorAll<HTMLElement>('pre, .table');
  const watcher = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.setAttribute('tabindex', '0');
      else target.removeAttribute('tabindex');
    }
  });
  for (const block of blocks) watcher.observe(block);
}
