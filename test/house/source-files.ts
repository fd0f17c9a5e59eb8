/** The project's own source files, read by a parser: what they import and export, how long they are, and their regular expressions. */
import { globSync, readFileSync } from 'node:fs';
import { builtinModules, stripTypeScriptTypes } from 'node:module';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type AnyNode, type Program, parse } from 'acorn';
import { stop as stopEsbuild, transformSync } from 'esbuild';
import { type Expression, findExpressions } from './expressions.ts';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** One import or re-export. `typeOnly`: gone at run time. */
export interface Import {
  readonly from: string;
  /** A path from the root, or the name of a package without its sub-path, or `node:x`. */
  readonly to: string;
  readonly typeOnly: boolean;
  /** `import(…)`: loaded when it is reached. */
  readonly isLazy: boolean;
}
export interface SourceFile {
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly Import[];
  readonly hasDefaultExport: boolean;
  /** Its regular expressions. */
  readonly expressions: readonly Expression[];
  /** The functions by where they start, with the number of their own lines. */
  readonly functions: readonly { readonly line: number; readonly lines: number }[];
}

/** What .gitignore names, as globs from the root. */
const ignored = readFileSync(join(root, '.gitignore'), 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => line.replace(/\/$/, ''))
  .map((line) => (line.startsWith('/') ? line.slice(1) : `**/${line}`));

/** The project's own files by glob; `*.ts` is one at any depth. Reads .gitignore instead of asking git, which may be missing. */
export function listFiles(...globs: readonly string[]): string[] {
  const patterns = globs.map((glob) => (glob.startsWith('*') ? `**/${glob}` : glob));
  return globSync(patterns, { cwd: root, exclude: ['.git', ...ignored] }).sort();
}

export const describeImport = ({ from, to }: Import): string => `${from} imports ${to}`;

/** All TypeScript files, except declarations and the plugins of tests. */
export async function readSources(): Promise<SourceFile[]> {
  const paths = listFiles('*.ts', '*.tsx').filter(
    (path) => !path.endsWith('.d.ts') && !path.startsWith('test/plugins/'),
  );
  const sources = paths.map(readSource);
  // Reading markup started its process.
  await stopEsbuild();
  return sources;
}

const read = new Map<string, SourceFile>();

/** Reads one TypeScript file, once for all test files of a process: parsing them all takes three seconds. */
function readSource(path: string): SourceFile {
  const source = read.get(path) ?? parseSource(path, readFileSync(join(root, path), 'utf8'));
  read.set(path, source);
  return source;
}

/** Parses one TypeScript file's text. */
export function parseSource(path: string, source: string): SourceFile {
  const isMarkup = path.endsWith('.tsx');
  // Markup cannot be blanked out in place, so of such a file lines and functions are not known.
  const stripped = isMarkup
    ? transformSync(source, { loader: 'tsx', jsx: 'automatic' }).code
    : stripTypeScriptTypes(source);
  const program = parse(stripped, { ecmaVersion: 'latest', sourceType: 'module', locations: true });
  const { nodes, functions } = visit(program, { nodes: [], functions: [] });
  const value = nodes.flatMap((node) =>
    importOf(node).map((to) => ({
      from: path,
      to: resolve(path, to),
      typeOnly: false,
      isLazy: node.type === 'ImportExpression',
    })),
  );
  const types = typeImports(source, stripped).map((to) => ({
    from: path,
    to: resolve(path, to),
    typeOnly: true,
    isLazy: false,
  }));
  return {
    path,
    lines: source.split('\n').length - 1,
    imports: [...value, ...types],
    hasDefaultExport: nodes.some(exportsDefault),
    expressions: findExpressions(nodes),
    functions: isMarkup ? [] : functions,
  };
}

interface FunctionLength {
  readonly line: number;
  /** Its own lines: those of the functions inside it are theirs, but for the line each starts on. */
  lines: number;
}
interface Visited {
  /** In the order of the source. */
  readonly nodes: AnyNode[];
  readonly functions: FunctionLength[];
}

/** @param outer the function around the node */
function visit(node: Program | AnyNode, visited: Visited, outer: FunctionLength | null = null): Visited {
  visited.nodes.push(node);
  let around = outer;
  if (isFunction(node) && node.loc) {
    around = { line: node.loc.start.line, lines: countLines(node) };
    visited.functions.push(around);
    if (outer !== null) outer.lines -= around.lines - 1;
  }
  for (const child of children(node)) visit(child, visited, around);
  return visited;
}

function children(node: Program | AnyNode): AnyNode[] {
  // Without `flat()`, which takes four times as long: a run visits millions of values.
  const found: AnyNode[] = [];
  for (const value of Object.values(node) as unknown[])
    if (Array.isArray(value)) found.push(...value.filter(isNode));
    else if (isNode(value)) found.push(value);
  return found;
}

function isNode(value: unknown): value is AnyNode {
  return typeof value === 'object' && value !== null && 'type' in value;
}

function importOf(node: AnyNode): string[] {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportAllDeclaration':
    case 'ExportNamedDeclaration':
    case 'ImportExpression':
      return node.source?.type === 'Literal' ? [String(node.source.value)] : [];
    default:
      return [];
  }
}

function exportsDefault(node: AnyNode): boolean {
  if (node.type === 'ExportDefaultDeclaration') return true;
  if (node.type !== 'ExportSpecifier') return false;
  return (node.exported.type === 'Identifier' ? node.exported.name : node.exported.value) === 'default';
}

const isFunction = (node: AnyNode): boolean =>
  /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type);
const countLines = ({ loc }: AnyNode): number => (loc ? loc.end.line - loc.start.line + 1 : 0);

/**
 * Type imports leave no trace after stripping but blanks of the same length. So what looks like one in the source is one
 * exactly when the same place is blank in the stripped text; inside a string or a comment it is still there.
 */
function typeImports(source: string, stripped: string): string[] {
  const candidates = source.matchAll(/\b(?:import|export)\s+type\b[^;'"]*?\bfrom\s*'([^']+)'|\bimport\('([^']+)'\)/g);
  return [...candidates].flatMap(({ 0: text, 1: named, 2: inline, index }) => {
    const blank = stripped.slice(index, index + text.length).trim() === '';
    const to = named ?? inline;
    return blank && to !== undefined ? [to] : [];
  });
}

function resolve(from: string, to: string): string {
  if (to.startsWith('.')) return normalize(join(dirname(from), to));
  if (builtinModules.includes(to)) return `node:${to}`;
  if (to.startsWith('node:')) return to;
  const [scope = '', name = ''] = to.split('/');
  return scope.startsWith('@') ? `${scope}/${name}` : scope;
}
