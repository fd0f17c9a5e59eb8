/** Makes all pages of the site and finds broken links. Writes no files. */
import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';
import { readRecipe } from './cookbook.ts';
import { type Rendered, renderMarkdown } from './markdown.ts';
import {
  COOKBOOK,
  exampleNames,
  FRONT,
  findAddress,
  localAddress,
  readSections,
  readText,
  root,
  type Section,
} from './pages.ts';

export interface Page extends Rendered {
  readonly title: string;
  readonly description: string;
  /** Empty for the front page. */
  readonly section: string;
  readonly href: string;
  /** Path from the project's root. */
  readonly file: string;
}
export interface Site {
  readonly sections: readonly Section[];
  /** In reading order, the front page first. */
  readonly pages: readonly Page[];
  /** Pictures, from the root of the project. */
  readonly pictures: ReadonlySet<string>;
  /** Broken links, one sentence each. */
  readonly faults: readonly string[];
}

/** @param pictureAddress where the site will have a picture */
export function makeSite(pictureAddress: (file: string) => string = (file) => `/${file}`): Site {
  const { sections, faults } = readSections();
  const pictures = new Set<string>();
  const render = (file: string, text = readText(file)): Rendered =>
    renderMarkdown(text, (target) => {
      const place = splitTarget(file, target);
      if (isPicture(place.file)) pictures.add(place.file);
      return place.file === '' ? localAddress(target) : resolve(place, pictureAddress);
    });
  const pages = [
    page({ title: 'Documentation', description: '', section: '', href: '/docs', file: FRONT }, render(FRONT)),
    ...sections.flatMap(({ title: section, places }) =>
      places.flatMap(({ file, href, title, description }) => {
        if (file === null) return [];
        const own = page({ title, description, section, href, file }, render(file));
        return file === COOKBOOK ? [own, ...recipes(section, render)] : [own];
      }),
    ),
  ];
  for (const each of pages) faults.push(...findBrokenLinks(each, pages));
  return { sections, pages, pictures, faults };
}

const page = (about: Omit<Page, keyof Rendered>, rendered: Rendered): Page => ({ ...about, ...rendered });

const recipes = (section: string, render: (file: string, text: string) => Rendered): Page[] =>
  exampleNames().map((name) => {
    const { title, description, text } = readRecipe(name);
    const file = `examples/${name}/readme.md`;
    return page({ title, description, section, href: `/docs/cookbook/${name}`, file }, render(file, text));
  });

const isPicture = (file: string): boolean => /\.(png|svg|webp)$/.test(file);

interface TargetPlace {
  /** Path from the project's root; empty for an address elsewhere. */
  readonly file: string;
  readonly fragment: string;
}

function splitTarget(from: string, target: string): TargetPlace {
  if (/^[a-z]+:|^\/\//.test(target)) return { file: '', fragment: '' };
  const [path = '', fragment = ''] = target.split('#');
  const file = path === '' ? from : posix.join(posix.dirname(from), decodeURIComponent(path)).replace(/\/$/, '');
  return { file, fragment };
}

function resolve({ file, fragment }: TargetPlace, pictureAddress: (file: string) => string): string | null {
  if (isPicture(file)) return pictureAddress(file);
  const address = findAddress(file);
  return address === null ? null : `${address}${fragment === '' ? '' : `#${fragment}`}`;
}

function findBrokenLinks({ file: from, targets }: Page, pages: readonly Page[]): string[] {
  return targets.flatMap((target) => {
    const { file, fragment } = splitTarget(from, target);
    if (file === '') return [];
    if (!existsSync(join(root, file))) return [`${from} links to ${target}: there is no ${file}.`];
    const there = pages.find((one) => one.href === findAddress(file));
    const isKnown = there?.headings.some(({ id }) => id === fragment) ?? true;
    return fragment === '' || isKnown ? [] : [`${from} links to ${target}: there is no heading #${fragment}.`];
  });
}
