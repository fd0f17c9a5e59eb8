/** Makes the cookbook's pages from the examples: what each does, what it asks for, and its code. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { describeCapability } from '../../sdk/contract/capabilities.ts';
import { type Manifest, manifest } from '../../sdk/contract/manifest.ts';
import { detectLanguage } from './code.ts';
import { root } from './pages.ts';
import { escapeCell } from './table-cell.ts';

const UTF8 = new TextDecoder('utf-8', { fatal: true });
const FRONTMATTER = /^---\n([\s\S]*?)\n---\n/;
/** Longer than any fence inside the shown files. */
const FENCE = '`'.repeat(5);

interface Recipe {
  readonly title: string;
  readonly description: string;
  /** Markdown with links relative to the example's readme. */
  readonly text: string;
}

/** @param name folder of the example */
export function readRecipe(name: string): Recipe {
  const folder = join(root, 'examples', name);
  const readme = readFileSync(join(folder, 'readme.md'), 'utf8');
  const declared = manifest.parse(parse(FRONTMATTER.exec(readme)?.[1] ?? ''));
  const body = readme.replace(FRONTMATTER, '').replace(/^\s*# .*\n/, '');
  const parts = [
    `# ${declared.name}\n\n${declared.description}`,
    body.trim(),
    `## What it asks for\n\n${describeReach(declared)}`,
    describeConfiguration(declared),
    `## The code\n\n${listFiles(folder)
      .map((path) => showFile(folder, path))
      .join('\n\n')}`,
    `## Try it\n\nWith the service running, in a checkout of it:\n\n${FENCE}sh\nnpm run example -- ${name}\n${FENCE}`,
  ];
  return { title: declared.name, description: declared.description, text: parts.filter(Boolean).join('\n\n') };
}

function describeReach({ capabilities }: Manifest): string {
  const registered = 'Registering a handler also asks for it.';
  if (capabilities.length === 0) return `Nothing beyond its own process. ${registered}`;
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

function describeConfiguration({ settings, secrets }: Manifest): string {
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
  const lines = rows.map(([name, ...cells]) => `| \`${name}\` | ${cells.map(escapeCell).join(' | ')} |`);
  return ['## What can be set', '', '| Name | Label | Default | Values |', '|---|---|---|---|', ...lines].join('\n');
}

/** `index.ts` first, then the readme, whose frontmatter is part of the code. */
function listFiles(folder: string): string[] {
  const rest = globSync('**/*.*', { cwd: folder }).filter((path) => path !== 'index.ts' && path !== 'readme.md');
  return ['index.ts', 'readme.md', ...rest.sort()];
}

function showFile(folder: string, path: string): string {
  const bytes = readFileSync(join(folder, path));
  const title = `### \`${path}\``;
  if (path === 'readme.md')
    return `${title}\n\n${fenceCode(`${FRONTMATTER.exec(bytes.toString())?.[0] ?? ''}…`, 'md')}`;
  try {
    return `${title}\n\n${fenceCode(UTF8.decode(bytes).trimEnd(), detectLanguage(path))}`;
  } catch {
    return `${title}\n\n${bytes.length} bytes of binary content; publish with a zip.`;
  }
}

const fenceCode = (text: string, language: string): string => `${FENCE}${language}\n${text}\n${FENCE}`;
