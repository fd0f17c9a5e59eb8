/** Wall L0: parses a code file of a package, and finds its imports and the calls that are not allowed. */
import { type AnyNode, type Options, Parser, type TokenType, tokTypes } from 'acorn';
import { isNode } from './free-names.ts';
import { type ImportAttributes, readImportAttributes, readText } from './import-attributes.ts';

interface ForbiddenCall {
  /** Offset in the code. */
  readonly start: number;
  readonly message: string;
}
/** A dynamic import: `import(…)`. */
export interface ImportCall {
  /** Offset of the word `import`. */
  readonly start: number;
  /** The imported path; null: it is not a string literal. */
  readonly from: string | null;
}
export interface FileSyntax {
  readonly tree: AnyNode;
  /** Whether the file has an import or export statement. */
  readonly isModule: boolean;
  /** Calls of `require` and direct `eval`. */
  readonly forbidden: readonly ForbiddenCall[];
  readonly importCalls: readonly ImportCall[];
  /** In the order of their texts. */
  readonly importAttributes: readonly ImportAttributes[];
  /** Names that the code assigns as properties of the global object. */
  readonly createdGlobals: readonly string[];
}

/** The file is not valid JavaScript. The line counts from 1 and the column from 0, as in source maps. */
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

/** What acorn's types leave out of its parser. */
type ClauseParser = new (
  options: Options,
  code: string,
) => {
  type: TokenType;
  readonly value: unknown;
  parseWithClause(): unknown;
};

/** acorn knows only the keyword `with` of import attributes. Older code has `assert`, which esbuild keeps. */
const ModuleParser = Parser.extend((Base) => {
  class AssertParser extends (Base as unknown as ClauseParser) {
    override parseWithClause(): unknown {
      if (this.type === tokTypes.name && this.value === 'assert') this.type = tokTypes._with;
      return super.parseWithClause();
    }
  }
  return AssertParser as unknown as typeof Base;
});

/**
 * Parses one file. Must run before bundling: for an `import()` of a computed path, esbuild searches the host's disk for
 * matching files.
 *
 * @param code an ES module in JavaScript
 * @throws CodeFault
 */
export function parseFile(code: string): FileSyntax {
  const tree = parseModule(code);
  const forbidden: ForbiddenCall[] = [];
  const importCalls: ImportCall[] = [];
  const importAttributes: ImportAttributes[] = [];
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
    const attributes = readImportAttributes(node, code);
    if (attributes) importAttributes.push(attributes);
    if (node.type === 'ImportExpression') {
      importCalls.push({ start: node.start, from: readText(node.source) });
      // The bundler gets no options of the call.
      open.push(node.source);
      continue;
    }
    const message = describeForbidden(node);
    if (message !== null) forbidden.push({ start: node.start, message });
    const created = readCreatedGlobal(node);
    if (created !== null) createdGlobals.push(created);
    for (const value of Object.values(node)) if (typeof value === 'object' && value !== null) open.push(value);
  }
  const isModule = tree.body.some((node) => /^(Import|Export)/.test(node.type));
  return {
    tree,
    isModule,
    forbidden: forbidden.sort(byStart),
    importCalls: importCalls.sort(byStart),
    importAttributes: importAttributes.sort((a, b) => byStart(a.text, b.text)),
    createdGlobals,
  };
}

function parseModule(code: string) {
  try {
    return ModuleParser.parse(code, MODULE);
  } catch (error) {
    if (error instanceof RangeError) throw new CodeFault('The code is nested too deeply', { line: 1, column: 0 });
    if (!(error instanceof SyntaxError) || !('loc' in error)) throw error;
    throw new CodeFault(error.message.replace(/ \(\d+:\d+\)$/, ''), error.loc as { line: number; column: number });
  }
}

/** Lists the statements `import` and `export … from` of an ES module, with the offset of the path. */
export function findImports(code: string): { from: string; start: number }[] {
  const { body } = ModuleParser.parse(code, MODULE);
  return body.flatMap((node) => {
    const source = 'source' in node ? node.source : null;
    if (!source || typeof source.value !== 'string') return [];
    return [{ from: source.value, start: source.start }];
  });
}

const byStart = (a: { start: number }, b: { start: number }): number => a.start - b.start;

/** Returns the name in `globalThis.name = value`; null for all other nodes. */
function readCreatedGlobal(node: AnyNode): string | null {
  if (node.type !== 'AssignmentExpression' || node.left.type !== 'MemberExpression' || node.left.computed) return null;
  const { object, property } = node.left;
  if (object.type !== 'Identifier' || !GLOBAL_OBJECT.has(object.name)) return null;
  return property.type === 'Identifier' ? property.name : null;
}

/** Returns why a call is not allowed; null for all other nodes. */
function describeForbidden(node: AnyNode): string | null {
  if (node.type !== 'CallExpression' || node.callee.type !== 'Identifier') return null;
  if (node.callee.name === 'require') return 'require is not allowed; use an import statement at the top';
  if (node.callee.name !== 'eval') return null;
  return 'eval is not allowed; write the code as a function, and read data with JSON.parse';
}
