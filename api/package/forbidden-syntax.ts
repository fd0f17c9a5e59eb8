/** Wall L0: finds forbidden syntax in a file of a package by its syntax tree. */
import { type AnyNode, parse } from 'acorn';

export interface ForbiddenPlace {
  /** From 1. */
  readonly line: number;
  /** From 0, as in source maps. */
  readonly column: number;
  readonly message: string;
}

/**
 * Finds `import()`, `import.meta`, `require` and direct `eval` in one file. Must run before bundling: for an `import()`
 * of a computed path, esbuild searches the host's disk for matching files.
 *
 * @param code JavaScript, an ES module
 */
export function findForbidden(code: string): ForbiddenPlace[] {
  let tree: AnyNode;
  try {
    tree = parse(code, { ecmaVersion: 'latest', sourceType: 'module', locations: true, allowHashBang: true });
  } catch (error) {
    if (error instanceof RangeError) return [{ line: 1, column: 0, message: 'The code is nested too deeply' }];
    if (!(error instanceof SyntaxError) || !('loc' in error)) throw error;
    const { line, column } = error.loc as { line: number; column: number };
    return [{ line, column, message: error.message.replace(/ \(\d+:\d+\)$/, '') }];
  }
  return walk(tree);
}

/** Lists the import statements of an ES module, with the position of the imported path. */
export function findImports(code: string): { from: string; line: number; column: number }[] {
  const { body } = parse(code, { ecmaVersion: 'latest', sourceType: 'module', locations: true, allowHashBang: true });
  return body.flatMap((node) => {
    const source = 'source' in node ? node.source : null;
    if (!source?.loc || typeof source.value !== 'string') return [];
    const { line, column } = source.loc.start;
    return [{ from: source.value, line, column }];
  });
}

/** Not recursive, because a hostile tree could exhaust the stack. */
function walk(root: AnyNode): ForbiddenPlace[] {
  const found: ForbiddenPlace[] = [];
  const open: unknown[] = [root];
  while (open.length > 0) {
    const node = open.pop();
    if (typeof node !== 'object' || node === null) continue;
    if (Array.isArray(node)) {
      for (const one of node) open.push(one);
      continue;
    }
    if (isNode(node)) {
      const message = forbids(node);
      if (message !== null && node.loc) found.push({ ...node.loc.start, message });
    }
    for (const value of Object.values(node)) if (typeof value === 'object' && value !== null) open.push(value);
  }
  return found.sort((a, b) => a.line - b.line || a.column - b.column);
}

const isNode = (value: object): value is AnyNode => 'type' in value && typeof value.type === 'string';

function forbids(node: AnyNode): string | null {
  if (node.type === 'ImportExpression') return 'import() is not allowed; use an import statement at the top';
  if (node.type === 'MetaProperty' && node.meta.name === 'import') {
    return 'import.meta is not allowed; a plugin has no address';
  }
  if (node.type !== 'CallExpression' || node.callee.type !== 'Identifier') return null;
  if (node.callee.name === 'require') return 'require is not allowed; use an import statement at the top';
  return node.callee.name === 'eval' ? 'eval is not allowed' : null;
}
