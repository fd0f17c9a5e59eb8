/** Colours, type and defaults of the whole console. */
import { type CSSVariablesResolver, createTheme } from '@mantine/core';

export const theme = createTheme({
  primaryColor: 'cyan',
  // Dark enough that white text on it passes WCAG AA, in both schemes.
  primaryShade: 9,
  autoContrast: true,
  defaultRadius: 'md',
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
  headings: { fontWeight: '650', sizes: { h1: { fontSize: '1.65rem' }, h2: { fontSize: '1.2rem' } } },
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    Notification: { defaultProps: { closeButtonProps: { 'aria-label': 'Dismiss' } } },
    Badge: { defaultProps: { tt: 'none', fw: 600 } },
    NavLink: { defaultProps: { py: 8, mb: 2, style: { borderRadius: 'var(--mantine-radius-md)' } } },
  },
});

/** Words on a tint of their colour and dimmed ones, dark enough to pass WCAG AA; the library's own are not. */
export const variables: CSSVariablesResolver = () => ({
  // The next lighter shade, which filled buttons get under the pointer, is too light for the text on them.
  variables: {
    '--mantine-color-cyan-filled-hover': 'var(--mantine-color-cyan-filled)',
    '--mantine-primary-color-filled-hover': 'var(--mantine-primary-color-filled)',
    '--mantine-color-red-filled-hover': 'var(--mantine-color-red-filled)',
  },
  light: {
    '--mantine-color-dimmed': 'var(--mantine-color-gray-7)',
    '--mantine-color-teal-light-color': '#055a40',
    '--mantine-color-yellow-light-color': '#6b3c00',
    '--mantine-color-red-light-color': '#9b1c1c',
    '--mantine-color-gray-light-color': 'var(--mantine-color-gray-8)',
    '--mantine-color-cyan-light-color': '#0a5463',
    '--mantine-color-error': '#b42318',
  },
  dark: {
    '--mantine-color-dimmed': 'var(--mantine-color-dark-1)',
    '--mantine-color-teal-light-color': 'var(--mantine-color-teal-2)',
    '--mantine-color-yellow-light-color': 'var(--mantine-color-yellow-2)',
    '--mantine-color-red-light-color': 'var(--mantine-color-red-2)',
    '--mantine-color-gray-light-color': 'var(--mantine-color-gray-3)',
    '--mantine-color-cyan-light-color': 'var(--mantine-color-cyan-2)',
    '--mantine-color-error': 'var(--mantine-color-red-3)',
  },
});
