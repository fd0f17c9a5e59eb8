/** Colours, fonts and defaults of the console. */
import { type CSSVariablesResolver, createTheme, type MantineColorsTuple } from '@mantine/core';

/** Grey with a slight blue tint, lightest first. */
const gray: MantineColorsTuple = [
  ...(['#f8f9fa', '#f1f2f4', '#e6e8eb', '#d9dce0', '#c3c7cd'] as const),
  ...(['#9ba1a9', '#737982', '#555b63', '#363b42', '#16191d'] as const),
];
/** From the text colour to the background. */
const dark: MantineColorsTuple = [
  ...(['#e7e9ec', '#a9aeb6', '#8b919a', '#5f656e', '#2d3138'] as const),
  ...(['#24282e', '#17191d', '#0e1013', '#090a0c', '#050607'] as const),
];

export const theme = createTheme({
  colors: { gray, dark },
  black: '#16191d',
  primaryColor: 'cyan',
  // Dark enough for white text by WCAG AA, in both schemes.
  primaryShade: 9,
  autoContrast: true,
  defaultRadius: 'md',
  fontFamily: '"Inter Variable", system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif',
  fontFamilyMonospace: '"JetBrains Mono Variable", ui-monospace, SFMono-Regular, Menlo, Consolas, monospace',
  fontSizes: { xs: '0.75rem', sm: '0.8125rem', md: '0.875rem', lg: '1rem', xl: '1.125rem' },
  headings: {
    fontWeight: '620',
    sizes: {
      h1: { fontSize: '1.5rem', lineHeight: '1.25' },
      h2: { fontSize: '0.9375rem' },
      h3: { fontSize: '0.8125rem' },
    },
  },
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    Notification: { defaultProps: { closeButtonProps: { 'aria-label': 'Dismiss' } } },
    Badge: { defaultProps: { tt: 'none', fw: 550, radius: 'sm' } },
    Button: { defaultProps: { fw: 550 } },
    Card: { defaultProps: { padding: 'md' } },
    NavLink: { defaultProps: { py: 7, px: 10, mb: 1, style: { borderRadius: 'var(--mantine-radius-md)' } } },
    Tooltip: {
      // By default, tooltips open for the mouse only.
      defaultProps: { openDelay: 250, withArrow: true, events: { hover: true, focus: true, touch: true } },
    },
  },
});

/** Hover colour of filled buttons: the library's lighter shade has too little contrast with the text. */
const COMMON = {
  '--mantine-color-cyan-filled-hover': 'var(--mantine-color-cyan-filled)',
  '--mantine-primary-color-filled-hover': 'var(--mantine-primary-color-filled)',
  '--mantine-color-red-filled-hover': 'var(--mantine-color-red-filled)',
};
/** Text on tinted backgrounds and dimmed text, dark enough for WCAG AA, unlike the library's colours. */
const LIGHT = {
  '--ground': 'var(--mantine-color-gray-0)',
  '--surface': '#fff',
  '--sunken': 'var(--mantine-color-gray-0)',
  '--line': 'var(--mantine-color-gray-2)',
  '--hovered': 'rgb(22 25 29 / 3.5%)',
  '--focus': '#0b7285',
  '--good': '#12946a',
  '--fair': '#d98a00',
  '--bad': '#dc3b3b',
  '--quiet': '#8a919b',
  '--busy': '#1c7ed6',
  '--good-tint': '#e3f6ee',
  '--fair-tint': '#fdf1d8',
  '--bad-tint': '#fde8e8',
  '--quiet-tint': '#eef0f2',
  '--good-text': '#0b6b4b',
  '--fair-text': '#7a4a00',
  '--bad-text': '#a32020',
  '--quiet-text': '#454b53',
  '--mantine-color-default-border': 'var(--mantine-color-gray-3)',
  '--mantine-color-dimmed': '#5d636c',
  '--mantine-color-yellow-light': 'var(--fair-tint)',
  '--mantine-color-red-light': 'var(--bad-tint)',
  '--mantine-color-cyan-light': '#e3f5f8',
  '--mantine-color-cyan-light-hover': '#d3eef3',
  '--mantine-color-teal-light-color': '#055a40',
  '--mantine-color-yellow-light-color': '#6b3c00',
  '--mantine-color-red-light-color': '#9b1c1c',
  '--mantine-color-gray-light-color': 'var(--mantine-color-gray-8)',
  '--mantine-color-cyan-light-color': '#0a5463',
  '--mantine-color-anchor': '#0b6577',
  '--mantine-color-error': '#b42318',
};
const DARK = {
  '--ground': 'var(--mantine-color-dark-7)',
  '--surface': '#14161a',
  '--sunken': '#0b0d0f',
  '--line': '#24272d',
  '--hovered': 'rgb(255 255 255 / 3.5%)',
  '--focus': '#3bc9db',
  '--good': '#38c793',
  '--fair': '#f0b03f',
  '--bad': '#f16a6a',
  '--quiet': '#7d848e',
  '--busy': '#4dabf7',
  '--good-tint': '#0f2a21',
  '--fair-tint': '#2e2410',
  '--bad-tint': '#331717',
  '--quiet-tint': '#1f2227',
  '--good-text': '#8fe3c1',
  '--fair-text': '#f5cf86',
  '--bad-text': '#f9b4b4',
  '--quiet-text': '#c3c8cf',
  '--mantine-color-yellow-light': 'var(--fair-tint)',
  '--mantine-color-red-light': 'var(--bad-tint)',
  '--mantine-color-default': '#191c20',
  '--mantine-color-default-hover': '#20242a',
  '--mantine-color-dimmed': 'var(--mantine-color-dark-1)',
  '--mantine-color-placeholder': 'var(--mantine-color-dark-2)',
  '--mantine-color-teal-light-color': 'var(--mantine-color-teal-2)',
  '--mantine-color-yellow-light-color': 'var(--mantine-color-yellow-2)',
  '--mantine-color-red-light-color': 'var(--mantine-color-red-2)',
  '--mantine-color-gray-light-color': 'var(--mantine-color-gray-3)',
  '--mantine-color-cyan-light-color': 'var(--mantine-color-cyan-2)',
  '--mantine-color-anchor': '#66d9e8',
  '--mantine-color-error': 'var(--mantine-color-red-3)',
};

export const variables: CSSVariablesResolver = () => ({ variables: COMMON, light: LIGHT, dark: DARK });
