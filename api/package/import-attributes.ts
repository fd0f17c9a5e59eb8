/**
 * Import attributes: `import a from './a.json' with { type: 'json' }`, or with the old keyword `assert`. A package may say with one
 * that it imports JSON. The bundler gets the code without them: it would ignore them, and keep a second copy of the file.
 */
import type { AnyNode } from 'acorn';
import { isNode } from './free-names.ts';

/** The attributes of one import. Offsets count in the code. */
export interface ImportAttributes {
  /** Of the path. */
  readonly start: number;
  /** The imported path; null: it is not a string literal. */
  readonly from: string | null;
  /** The value of `type` if that is the only attribute; else null. */
  readonly type: string | null;
  /** Whether the attributes are written out, which those of `import()` need not be. */
  readonly isLiteral: boolean;
  /** From the end of the path to the end of the attributes. */
  readonly text: { readonly start: number; readonly end: number };
}

const KEYWORDS: ReadonlySet<string | null> = new Set(['with', 'assert']);
const ONLY_JSON = "The only import attribute is with { type: 'json' }, for a .json file. Remove this one";

/** Reads the attributes of a statement or a call of `import()`; null: it has none. */
export function readImportAttributes(node: AnyNode, code: string): ImportAttributes | null {
  if (node.type === 'ImportExpression') {
    if (!node.options) return null;
    const attributes = readOptions(node.options);
    return {
      ...placeOf(node.source),
      type: attributes && readType(attributes),
      isLiteral: attributes !== null,
      text: { start: node.source.end, end: node.end - ')'.length },
    };
  }
  if (!('attributes' in node) || !node.source || node.attributes.length === 0) return null;
  return {
    ...placeOf(node.source),
    type: readType(node.attributes),
    isLiteral: true,
    text: { start: node.source.end, end: code.lastIndexOf('}', node.end) + 1 },
  };
}

/** @param found the file that the path leads to */
export function describeAttributesFault({ type }: ImportAttributes, found: string): string | null {
  if (type !== 'json') return ONLY_JSON;
  if (found.endsWith('.json')) return null;
  return `“${found}” is not a .json file. Remove the attribute, or write the path of a .json file with its extension`;
}

/**
 * Replaces the attributes by spaces, so that no position changes.
 *
 * @param found in the order of their texts, which do not overlap
 */
export function blankAttributes(code: string, found: readonly ImportAttributes[]): string {
  const pieces: string[] = [];
  let done = 0;
  for (const { text } of found) {
    pieces.push(code.slice(done, text.start), code.slice(text.start, text.end).replace(/[^\n]/g, ' '));
    done = text.end;
  }
  pieces.push(code.slice(done));
  return pieces.join('');
}

function placeOf(path: AnyNode): { start: number; from: string | null } {
  return { start: path.start, from: readText(path) };
}

/** The entries of `{ with: { … } }` or `{ assert: { … } }`; null: it is another expression. */
function readOptions(options: AnyNode): readonly unknown[] | null {
  const [only, ...others] = options.type === 'ObjectExpression' ? options.properties : [];
  if (only?.type !== 'Property' || others.length > 0 || !KEYWORDS.has(readKey(only))) return null;
  return only.value.type === 'ObjectExpression' ? only.value.properties : null;
}

function readType([only, ...others]: readonly unknown[]): string | null {
  if (others.length > 0 || !isNode(only) || (only.type !== 'Property' && only.type !== 'ImportAttribute')) return null;
  return readKey(only) === 'type' ? readText(only.value) : null;
}

function readKey(entry: AnyNode & { readonly key: AnyNode }): string | null {
  if ('computed' in entry && entry.computed) return null;
  return entry.key.type === 'Identifier' ? entry.key.name : readText(entry.key);
}

export const readText = (node: AnyNode): string | null =>
  node.type === 'Literal' && typeof node.value === 'string' ? node.value : null;
