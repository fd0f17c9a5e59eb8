/** Renders Markdown to HTML and collects headings, links and searchable text. */
import Slugger from 'github-slugger';
import MarkdownIt, { type Token } from 'markdown-it';
import { highlightCode } from './code.ts';
import { plainTables } from './tables.ts';

interface Heading {
  readonly level: number;
  readonly id: string;
  readonly text: string;
}
/** The text under one heading. */
interface Passage {
  readonly heading: Heading;
  readonly text: string;
}
export interface Rendered {
  readonly html: string;
  readonly headings: readonly Heading[];
  readonly passages: readonly Passage[];
  /** Targets of all links and pictures, as written. */
  readonly targets: readonly string[];
}
/** Resolves a link or picture to an address; null if the site does not have it. */
type Resolve = (target: string) => string | null;

/** Collected while a page is rendered. */
interface Collected {
  readonly resolve: Resolve;
  readonly headings: Heading[];
  readonly targets: string[];
}

const markdown = new MarkdownIt({ html: false, linkify: false });
markdown.core.ruler.push('plain_tables', plainTables);
markdown.core.ruler.push('anchors', ({ tokens, env }) => nameHeadings(tokens, env.notes as Collected));
markdown.core.ruler.push('links', ({ tokens, env }) => resolveLinks(tokens, env.notes as Collected));
markdown.renderer.rules.fence = (tokens, at) => {
  const { content = '', info = '' } = tokens[at] ?? {};
  return `<div class="code"><pre><code>${highlightCode(content, info.trim())}</code></pre></div>\n`;
};
markdown.renderer.rules.table_open = () => '<div class="table"><table>\n';
markdown.renderer.rules.table_close = () => '</table></div>\n';

/** Headings get the ids that GitHub gives them, so links work in both places. */
export function renderMarkdown(text: string, resolve: Resolve): Rendered {
  const collected: Collected = { resolve, headings: [], targets: [] };
  const env = { notes: collected };
  const tokens = markdown.parse(text, env);
  const html = markdown.renderer.render(tokens, markdown.options, env);
  return {
    html,
    headings: collected.headings,
    targets: collected.targets,
    passages: readPassages(tokens, collected.headings),
  };
}

function nameHeadings(tokens: readonly Token[], { headings }: Collected): void {
  const slugger = new Slugger();
  tokens.forEach((token, at) => {
    if (token.type !== 'heading_open') return;
    const inline = tokens[at + 1];
    const text = plainText(inline?.children ?? []);
    const heading = { level: Number(token.tag.slice(1)), id: slugger.slug(text), text };
    headings.push(heading);
    token.attrPush(['id', heading.id]);
    if (heading.level > 1 && inline?.children) inline.children = makeSelfLink(heading.id, inline.children);
  });
}

/** Makes the heading a link to itself. */
function makeSelfLink(id: string, children: Token[]): Token[] {
  const first = children[0];
  if (first === undefined || children.some(({ type }) => type === 'link_open')) return children;
  const Made = first.constructor as typeof Token;
  const open = new Made('link_open', 'a', 1);
  open.attrPush(['href', `#${id}`]);
  open.attrPush(['class', 'anchor']);
  return [open, ...children, new Made('link_close', 'a', -1)];
}

function resolveLinks(tokens: readonly Token[], notes: Collected): void {
  for (const { children } of tokens) {
    let isDead = false;
    for (const token of children ?? []) {
      if (token.type === 'image') resolveTarget(token, 'src', notes);
      if (token.type === 'link_open') isDead = !resolveTarget(token, 'href', notes);
      // Targets outside the site become plain text.
      if (isDead && token.type.startsWith('link_')) token.tag = 'span';
      if (isDead && token.type === 'link_open') token.attrs = [['class', 'source']];
    }
  }
}

/** @returns whether the target exists */
function resolveTarget(token: Token, name: 'href' | 'src', { targets, resolve }: Collected): boolean {
  const target = String(token.attrGet(name));
  if (token.attrGet('class') === 'anchor') return true;
  targets.push(target);
  const address = resolve(target);
  if (address !== null) token.attrSet(name, address);
  return address !== null;
}

const plainText = (tokens: readonly Token[]): string =>
  tokens
    .map(({ type, content, children }) => (type === 'softbreak' ? ' ' : (children && plainText(children)) || content))
    .join('');

function readPassages(tokens: readonly Token[], headings: readonly Heading[]): Passage[] {
  const passages: { heading: Heading; text: string }[] = [];
  let next = 0;
  tokens.forEach((token, at) => {
    const heading = token.type === 'heading_open' ? headings[next++] : undefined;
    if (heading) passages.push({ heading, text: '' });
    const passage = passages.at(-1);
    const isText = token.type === 'fence' || (token.type === 'inline' && tokens[at - 1]?.type !== 'heading_open');
    if (passage && isText) passage.text += `${token.children ? plainText(token.children) : token.content}\n`;
  });
  return passages;
}

/** Renders one line of Markdown without a paragraph. */
export const renderLine = (text: string): string =>
  markdown.renderInline(text, { notes: { resolve: () => null, headings: [], targets: [] } satisfies Collected });
