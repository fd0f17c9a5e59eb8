/** Parses Markdown of authors into a tree of bounded size. Some texts take minutes: call it in a worker that can be ended. */
import type { toJsxRuntime } from 'hast-util-to-jsx-runtime';
import gfm from 'remark-gfm';
import parse from 'remark-parse';
import toHtml from 'remark-rehype';
import { unified } from 'unified';
import { escapeText } from '../style/untrusted-text.ts';

/** A tree of elements and texts. */
export type MarkdownTree = Parameters<typeof toJsxRuntime>[0];

/** Elements and texts, which the page creates all at once. Three kilobytes can be a table of 160,000 cells. */
const NODES_MAX = 50_000;
/** A row of this form with a `|` makes a table of the lines after it, each with as many cells as the row. It may be in quotes and lists. */
const TABLE_HEAD = /^[\s>*+\-\d.):|]*$/;
/** Characters of all addresses and titles that the text defines once and its links repeat. The page gets a copy for each link. */
const REPEATED_MAX_CHARS = 4_194_304;
/** Elements inside each other. Creating them needs stack, which 4,000 quotes in quotes exhaust. */
const DEPTH_MAX = 100;

const processor = unified().use(parse).use(gfm).use(toHtml, { allowDangerousHtml: true });

/** @returns null if the text is too complex */
export function parseMarkdown(text: string): MarkdownTree | null {
  // The parser makes all cells before the tree can be counted: 12 KB can take a gigabyte.
  if (countCellsMax(text) > NODES_MAX) return null;
  try {
    const parsed = processor.parse(text);
    if (countRepeatedChars(parsed) > REPEATED_MAX_CHARS) return null;
    const tree: MarkdownTree = processor.runSync(parsed);
    return checkTree(tree, 0, { nodes: 0 }) ? tree : null;
  } catch {
    // Texts that are deeper than the stack.
    return null;
  }
}

function countCellsMax(text: string): number {
  const lines = text.split('\n');
  const countColumns = (line: string): number =>
    line.includes('|') && TABLE_HEAD.test(line) ? line.split('|').length : 0;
  return lines.length * lines.reduce((most, line) => Math.max(most, countColumns(line)), 0);
}

interface ParsedNode {
  readonly type: string;
  /** Of a definition, and of a link by reference to it. */
  readonly identifier?: string;
  readonly url?: string;
  readonly title?: string | null | undefined;
  readonly children?: readonly ParsedNode[];
}

/** Of all links and images by reference, such as `[a]`: 15,000 of them can make two gigabytes of 180 KB. */
function countRepeatedChars(parsed: ParsedNode): number {
  const lengths = new Map<string, number>();
  const references: string[] = [];
  const visit = ({ type, identifier = '', url = '', title, children = [] }: ParsedNode): void => {
    // As remark-rehype compares them.
    const name = identifier.toUpperCase();
    if (type === 'linkReference' || type === 'imageReference') references.push(name);
    // The first definition of a name wins.
    if (type === 'definition' && !lengths.has(name)) lengths.set(name, url.length + (title ?? '').length);
    for (const child of children) visit(child);
  };
  visit(parsed);
  return references.reduce((sum, name) => sum + (lengths.get(name) ?? 0), 0);
}

/** Counts the nodes, turns HTML into text, and escapes what a character reference such as `&#x202E;` hides from the check of a publish. */
function checkTree(node: MarkdownTree, depth: number, count: { nodes: number }): boolean {
  count.nodes += 1;
  if (depth > DEPTH_MAX || count.nodes > NODES_MAX) return false;
  if (node.type === 'raw') Object.assign(node, { type: 'text' });
  else if (node.type === 'text') node.value = escapeText(node.value);
  return !('children' in node) || node.children.every((child: MarkdownTree) => checkTree(child, depth + 1, count));
}
