/** Renders untrusted Markdown without raw HTML, images or referrers. */
import { Anchor } from '@mantine/core';
import type { ComponentProps } from 'react';
import Markdown, { type Components } from 'react-markdown';
import gfm from 'remark-gfm';

const components: Components = {
  a: ({ href, children }) => <OutwardLink href={href}>{children}</OutwardLink>,
  // Loading an image would send the reader's IP address to its host.
  img: ({ src, alt }) => <OutwardLink href={typeof src === 'string' ? src : undefined}>{alt || 'picture'}</OutwardLink>,
  // The page has its own h1.
  h1: ({ children }) => <h2>{children}</h2>,
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
  return (
    <div className="readme foreign">
      <Markdown remarkPlugins={[gfm]} components={components}>
        {withoutTitle(text, title)}
      </Markdown>
    </div>
  );
}

function withoutTitle(text: string, title: string): string {
  const [first = '', ...rest] = text.trimStart().split('\n');
  return first.replace(/^#\s+/, '').trim() === title.trim() && first.startsWith('#') ? rest.join('\n') : text;
}
