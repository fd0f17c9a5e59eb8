/** The pages of the site and their order, as docs/README.md lists them. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
/** Lists all pages. */
export const FRONT = 'docs/README.md';
/** Lists the examples; each has a page below it. */
export const COOKBOOK = 'examples/README.md';
/** The service's address in the pages. Links to it become paths on the service that shows the site. */
const SERVICE = 'http://localhost:4000/';
/** The reference of the session API. The service redirects this path to it, at the address that the operator set. */
const SESSION_API_REFERENCE = { link: 'http://localhost:4010/docs', path: '/docs/session-api-reference' };
/** Files whose address differs from their name. */
const ADDRESSES: Readonly<Record<string, string>> = {
  [FRONT]: '',
  [COOKBOOK]: 'cookbook',
  'README.md': 'about',
  'CHANGELOG.md': 'changes',
  'sdk/README.md': 'types',
  'sdk/REFERENCE.md': 'reference',
};

interface Place {
  readonly title: string;
  readonly description: string;
  /** Path from the project's root; null for an address of the service that is not a page of the site. */
  readonly file: string | null;
  readonly href: string;
}
export interface Section {
  readonly title: string;
  readonly places: readonly Place[];
}

/** Reads a file of the project without its HTML comments. */
export function readText(file: string): string {
  return readFileSync(join(root, file), 'utf8').replaceAll(/<!--[\s\S]*?-->\s*/g, '');
}

/** The address of a file on the site, `/docs/…`; null if it is not a page. */
export function findAddress(file: string): string | null {
  const example = /^examples\/([a-z0-9-]+)(\/|$)/.exec(file)?.[1];
  if (example !== undefined) return isExample(example) ? `/docs/cookbook/${example}` : null;
  const named = ADDRESSES[file];
  if (named === '') return '/docs';
  if (named !== undefined) return `/docs/${named}`;
  return /^docs\/[a-z0-9-]+\.md$/.test(file) && existsSync(join(root, file))
    ? `/docs/${posix.basename(file, '.md')}`
    : null;
}

const isExample = (name: string): boolean => existsSync(join(root, 'examples', name, 'readme.md'));

/** Reads the sections from docs/README.md. `faults` name listed pages that do not exist and pages that are not listed. */
export function readSections(): { sections: Section[]; faults: string[] } {
  const sections: { title: string; places: Place[] }[] = [];
  const faults: string[] = [];
  for (const line of readText(FRONT).split('\n')) {
    const title = /^## (.+)$/.exec(line)?.[1];
    if (title !== undefined) sections.push({ title, places: [] });
    const entry = /^- \[([^\]]+)\]\(([^)]+)\): (.+)$/.exec(line);
    if (entry === null) continue;
    const place = parsePlace(entry);
    if (place) sections.at(-1)?.places.push(place);
    else faults.push(`${FRONT} lists ${entry[2]}, which is not a page.`);
  }
  return { sections, faults: [...faults, ...unlistedPages(sections)] };
}

function parsePlace([, title = '', target = '', description = '']: RegExpExecArray): Place | null {
  if (target.startsWith(SERVICE)) return { title, description, file: null, href: localAddress(target) };
  const file = posix.join('docs', target);
  const href = findAddress(file);
  return href === null || !existsSync(join(root, file)) ? null : { title, description, file, href };
}

function unlistedPages(sections: readonly Section[]): string[] {
  const listed = new Set(sections.flatMap(({ places }) => places.map(({ file }) => file)));
  const there = globSync('docs/*.md', { cwd: root }).sort();
  const forgotten = there.filter((file) => file !== FRONT && !listed.has(file));
  return forgotten.map((file) => `${FRONT} does not list ${file}: add a line where a reader would look for it.`);
}

/** Turns an address of the service into a path; returns others unchanged. */
export function localAddress(href: string): string {
  if (href === SESSION_API_REFERENCE.link) return SESSION_API_REFERENCE.path;
  return href.startsWith(SERVICE) ? href.slice(SERVICE.length - 1) : href;
}

/** The names of the examples, in the order of their table. */
export function exampleNames(): string[] {
  if (!existsSync(join(root, COOKBOOK))) return [];
  const named = [...readText(COOKBOOK).matchAll(/^\| \[[^\]\n]+\]\(([a-z0-9-]+)\)/gm)].map(([, name = '']) => name);
  return named.filter(isExample);
}
