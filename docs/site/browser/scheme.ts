/** Uses the colour scheme that was chosen in the console. Runs before the first paint. */
const KEY = 'mantine-color-scheme-value';
try {
  const chosen = localStorage.getItem(KEY);
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.scheme = chosen;
} catch {
  // Browsers that forbid storage throw.
}

// Makes this file a module for the type checker.
export {};
