/** The colours that were chosen in the console hold here, too. Runs before anything is drawn. */
const KEY = 'mantine-color-scheme-value';
try {
  const chosen = localStorage.getItem(KEY);
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.scheme = chosen;
} catch {
  // A browser that keeps nothing for pages says so by throwing.
}

// A module, so that its names are its own; bundled as a plain script.
export {};
