/** Renders untrusted Markdown without raw HTML, images or referrers. */
import { Anchor, Button, Group, Skeleton, Stack, Text } from '@mantine/core';
import { type Components, toJsxRuntime } from 'hast-util-to-jsx-runtime';
import type { ComponentProps } from 'react';
import { Fragment, jsx, jsxs } from 'react/jsx-runtime';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PreformattedText } from '../shell/preformatted-text.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { useMarkdown } from './use-markdown.ts';

const components: Partial<Components> = {
  a: ({ href, children }) => <OutwardLink href={href}>{children}</OutwardLink>,
  // Loading an image would send the reader's IP address to its host.
  img: ({ src, alt }) => (
    <OutwardLink href={typeof src === 'string' ? src : undefined}>{alt ? escapeText(alt) : 'picture'}</OutwardLink>
  ),
  // The page has its own h1.
  h1: ({ children }) => <h2>{children}</h2>,
  table: ({ children }) => (
    // biome-ignore lint/a11y/useSemanticElements: it is not a set of form fields
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <div className="readme-table" role="group" aria-label="Table" tabIndex={0}>
      <table>{children}</table>
    </div>
  ),
};

function OutwardLink({ href, children }: ComponentProps<'a'>) {
  if (!href || !/^https?:/i.test(href)) return <>{children}</>;
  return (
    <Anchor href={href} target="_blank" rel="noopener noreferrer nofollow" underline="always">
      {children}
    </Anchor>
  );
}

/** @param title the page's heading, which is removed from the start of the readme */
export function Readme({ text, title }: { readonly text: string; readonly title: string }) {
  const shown = withoutTitle(text, title);
  const [tree, parseAgain, fault] = useMarkdown(shown);
  if (fault !== null)
    return (
      <Stack gap="xs">
        <ErrorAlert error={fault} reset={parseAgain} />
        <PreformattedText>{escapeText(shown)}</PreformattedText>
      </Stack>
    );
  if (tree === undefined) return <Skeleton height={160} aria-label="Loading" />;
  if (tree === null)
    return (
      <Stack gap="xs">
        <Group gap="xs">
          <Text size="sm" c="dimmed">
            The readme could not be formatted: it is too complex, or this device is busy. This is its text.
          </Text>
          <Button size="compact-xs" variant="default" onClick={parseAgain}>
            Try again
          </Button>
        </Group>
        <PreformattedText>{escapeText(shown)}</PreformattedText>
      </Stack>
    );
  return (
    <div className="readme foreign">
      {toJsxRuntime(tree, { Fragment, jsx, jsxs, components, ignoreInvalidStyle: true })}
    </div>
  );
}

function withoutTitle(text: string, title: string): string {
  const [first = '', ...rest] = text.trimStart().split('\n');
  return first.replace(/^#\s+/, '').trim() === title.trim() && first.startsWith('#') ? rest.join('\n') : text;
}
