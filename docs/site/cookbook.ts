/** The cookbook's pages, made from the examples themselves: what each does, what it asks for, and its code. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { describeCapability } from '../../sdk/contract/capabilities.ts';
import { type Manifest, manifest } from '../../sdk/contract/manifest.ts';
import { languageOf } from './code.ts';
import { root } from './pages.ts';

const UTF8 = new TextDecoder('utf-8', { fatal: true });
const FRONTMATTER = /^---\n([\s\S]*?)\n---\n/;
/** Longer than any fence in a file that is shown. */
const FENCE = '`'.repeat(5);

export interface Recipe {
  readonly title: string;
  readonly description: string;
  /** Markdown, its links relative to the example's readme. */
  readonly text: string;
}

/** @param name of the example's folder */
export function readRecipe(name: string): Recipe {
  const folder = join(root, 'examples', name);
  const readme = readFileSync(join(folder, 'readme.md'), 'utf8');
  const declared = manifest.parse(parse(FRONTMATTER.exec(readme)?.[1] ?? ''));
  const body = readme.replace(FRONTMATTER, '').replace(/^\s*# .*\n/, '');
  const parts = [
    `# ${declared.name}\n\n${declared.description}`,
    body.trim(),
    `## What it asks for\n\n${reach(declared)}`,
    configuration(declared),
    `## The code\n\n${filesOf(folder)
      .map((path) => shown(folder, path))
      .join('\n\n')}`,
    `## Try it\n\nWith the service running, in a checkout of it:\n\n${FENCE}sh\nnpm run example -- ${name}\n${FENCE}`,
  ];
  return { title: declared.name, description: declared.description, text: parts.filter(Boolean).join('\n\n') };
}

function reach({ capabilities }: Manifest): string {
  const registered = 'What it registers is asked for by being registered.';
  if (capabilities.length === 0) return `Nothing that reaches beyond its own process. ${registered}`;
  const rows = capabilities
    .map(describeCapability)
    .map((one) => `| \`${one.capability}\` | ${one.sentence} | ${one.risk} |`);
  return [
    '| Capability | What the user reads before consenting | Risk |',
    '|---|---|---|',
    ...rows,
    '',
    registered,
  ].join('\n');
}

function configuration({ settings, secrets }: Manifest): string {
  const rows = [
    ...Object.entries(settings).map(([name, row]) => [
      name,
      row.label ?? '',
      row.default ?? '',
      row.enum?.join(', ') ?? '',
    ]),
    ...Object.entries(secrets).map(([name, row]) => [name, row.label ?? '', '', 'a secret']),
  ];
  if (rows.length === 0) return '';
  const lines = rows.map(([name, ...cells]) => `| \`${name}\` | ${cells.map(inCell).join(' | ')} |`);
  return ['## What can be set', '', '| Name | Label | Default | Values |', '|---|---|---|---|', ...lines].join('\n');
}

const inCell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** The readme's frontmatter is part of the code, and `index.ts` is what one looks for. */
function filesOf(folder: string): string[] {
  const rest = globSync('**/*.*', { cwd: folder }).filter((path) => path !== 'index.ts' && path !== 'readme.md');
  return ['index.ts', 'readme.md', ...rest.sort()];
}

function shown(folder: string, path: string): string {
  const bytes = readFileSync(join(folder, path));
  const title = `### \`${path}\``;
  if (path === 'readme.md') return `${title}\n\n${fenced(`${FRONTMATTER.exec(bytes.toString())?.[0] ?? ''}…`, 'md')}`;
  try {
    return `${title}\n\n${fenced(UTF8.decode(bytes).trimEnd(), languageOf(path))}`;
  } catch {
    return `${title}\n\n${bytes.length} bytes that are no text; published by zip.`;
  }
}

const fenced = (text: string, language: string): string => `${FENCE}${language}\n${text}\n${FENCE}`;
