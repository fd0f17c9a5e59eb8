/** Adds copy buttons to code, and makes wide blocks scrollable by keyboard. */

/** How long a button shows its result, milliseconds. */
const RESULT_SHOWN_MS = 2_000;

export function addCopyButtons(): void {
  // Browsers offer the clipboard to secure origins only.
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
  }, RESULT_SHOWN_MS);
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
