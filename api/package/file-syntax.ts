/** Wall L0: reads what a code file of a package does, by its syntax tree: what it imports, and what it must not call. */
import { type AnyNode, parse } from 'acorn';
import { isNode } from './free-names.ts';

interface ForbiddenPlace {
  /** Offset in the code. */
  readonly start: number;
  readonly message: string;
}
/** Where a file imports at run time. */
export interface ImportCall {
  /** Offset of the word `import`. */
  readonly start: number;
  /** null: computed. */
  readonly from: string | null;
}
export interface FileSyntax {
  readonly tree: AnyNode;
  readonly isModule: boolean;
  /** Calls of `require` and direct `eval`. */
  readonly forbidden: readonly ForbiddenPlace[];
  readonly importCalls: readonly ImportCall[];
  /** Names that the code assigns as properties of the global object. */
  readonly createdGlobals: readonly string[];
}

/** A file that is no JavaScript. Line from 1, column from 0, as in source maps. */
export class CodeFault extends Error {
  readonly line: number;
  readonly column: number;
  constructor(message: string, at: { line: number; column: number }) {
    super(message);
    this.line = at.line;
    this.column = at.column;
  }
}

const GLOBAL_OBJECT: ReadonlySet<string> = new Set(['globalThis', 'self', 'global']);
const MODULE = { ecmaVersion: 'latest', sourceType: 'module', allowHashBang: true } as const;

/**
 * Parses one file. Must run before bundling: for an `import()` of a computed path, esbuild searches the host's disk for
 * matching files.
 *
 * @param code JavaScript, an ES module
 * @throws CodeFault
 */
export function parseFile(code: string): FileSyntax {
  const tree = parseModule(code);
  const forbidden: ForbiddenPlace[] = [];
  const importCalls: ImportCall[] = [];
  const createdGlobals: string[] = [];
  // Not recursive, because a hostile tree could exhaust the stack.
  const open: unknown[] = [tree];
  while (open.length > 0) {
    const node = open.pop();
    if (Array.isArray(node)) {
      for (const one of node) open.push(one);
      continue;
    }
    if (!isNode(node)) continue;
    if (node.type === 'ImportExpression') importCalls.push({ start: node.start, from: readText(node.source) });
    const message = forbids(node);
    if (message !== null) forbidden.push({ start: node.start, message });
    const created = readCreatedGlobal(node);
    if (created !== null) createdGlobals.push(created);
    for (const value of Object.values(node)) if (typeof value === 'object' && value !== null) open.push(value);
  }
  const isModule = tree.body.some((node) => /^(Import|Export)/.test(node.type));
  return { tree, isModule, forbidden: forbidden.sort(byStart), importCalls: importCalls.sort(byStart), createdGlobals };
}

function parseModule(code: string) {
  try {
    return parse(code, MODULE);
  } catch (error) {
    if (error instanceof RangeError) throw new CodeFault('The code is nested too deeply', { line: 1, column: 0 });
    if (!(error instanceof SyntaxError) || !('loc' in error)) throw error;
    throw new CodeFault(error.message.replace(/ \(\d+:\d+\)$/, ''), error.loc as { line: number; column: number });
  }
}

/** Lists the import statements of an ES module, with the offset of the imported path. */
export function findImports(code: string): { from: string; start: number }[] {
  const { body } = parse(code, MODULE);
  return body.flatMap((node) => {
    const source = 'source' in node ? node.source : null;
    if (!source || typeof source.value !== 'string') return [];
    return [{ from: source.value, start: source.start }];
  });
}

const readText = (node: AnyNode): string | null =>
  node.type === 'Literal' && typeof node.value === 'string' ? node.value : null;
const byStart = (a: { start: number }, b: { start: number }): number => a.start - b.start;

/** The name in `globalThis.name = value`. */
function readCreatedGlobal(node: AnyNode): string | null {
  if (node.type !== 'AssignmentExpression' || node.left.type !== 'MemberExpression' || node.left.computed) return null;
  const { object, property } = node.left;
  if (object.type !== 'Identifier' || !GLOBAL_OBJECT.has(object.name)) return null;
  return property.type === 'Identifier' ? property.name : null;
}

function forbids(node: AnyNode): string | null {
  if (node.type !== 'CallExpression' || node.callee.type !== 'Identifier') return null;
  if (node.callee.name === 'require') return 'require is not allowed; use an import statement at the top';
  if (node.callee.name !== 'eval') return null;
  return 'eval is not allowed; write the code as a function, and read data with JSON.parse';
}
