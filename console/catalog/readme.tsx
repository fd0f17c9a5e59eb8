/** A stranger's markdown. Raw HTML in it stays text, its links are told nothing, and it loads no picture. */
import { Anchor } from '@mantine/core';
import type { ComponentProps } from 'react';
import Markdown, { type Components } from 'react-markdown';
import gfm from 'remark-gfm';

const components: Components = {
  a: ({ href, children }) => <OutwardLink href={href}>{children}</OutwardLink>,
  // A picture would tell its host who reads.
  img: ({ src, alt }) => <OutwardLink href={typeof src === 'string' ? src : undefined}>{alt || 'picture'}</OutwardLink>,
  // The page has its own first heading.
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

export function Readme({ text }: { readonly text: string }) {
  return (
    <div className="readme foreign">
      <Markdown remarkPlugins={[gfm]} components={components}>
        {text}
      </Markdown>
    </div>
  );
}
