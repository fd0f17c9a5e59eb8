/** Colours, type and defaults of the whole console. */
import { createTheme } from '@mantine/core';

export const theme = createTheme({
  primaryColor: 'cyan',
  // Dark enough that white text on it and it on white pass WCAG AA.
  primaryShade: { light: 9, dark: 4 },
  autoContrast: true,
  defaultRadius: 'md',
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
  headings: { fontWeight: '650', sizes: { h1: { fontSize: '1.65rem' }, h2: { fontSize: '1.2rem' } } },
  cursorType: 'pointer',
  respectReducedMotion: true,
});
