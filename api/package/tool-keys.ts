/** Finds fields of tools that the host does not read, such as a misspelt `paramaters`. The child drops them when it registers. */
import type { AnyNode } from 'acorn';
import { findNearName } from '../../service/text/near-name.ts';
import { cutQuoted } from '../../service/text/quoted-text.ts';
import type { FreeName } from './free-names.ts';

const KEYS = ['description', 'parameters', 'handler'];

interface UnknownKey {
  /** Offset in the code. */
  readonly start: number;
  readonly message: string;
}

/**
 * Reads the assignments `tools.name = { … }` at the top level of a file.
 *
 * @param freeNames the names that the file does not declare: `tools` is the host's only among them
 */
export function* findUnknownToolKeys(tree: AnyNode, freeNames: readonly FreeName[]): Generator<UnknownKey, void> {
  if (tree.type !== 'Program') return;
  const starts = new Set(freeNames.filter(({ name }) => name === 'tools').map(({ start }) => start));
  for (const statement of tree.body) {
    if (statement.type !== 'ExpressionStatement' || statement.expression.type !== 'AssignmentExpression') continue;
    const { left, right } = statement.expression;
    if (left.type !== 'MemberExpression' || !starts.has(left.object.start) || right.type !== 'ObjectExpression')
      continue;
    for (const property of right.properties) {
      const key = readKey(property);
      if (key === null || KEYS.includes(key)) continue;
      const near = findNearName(key, KEYS);
      const hint = near === null ? `Its fields are ${KEYS.join(', ')}.` : `Did you mean “${near}”?`;
      yield { start: property.start, message: `A tool has no field “${cutQuoted(key)}”, so it is ignored. ${hint}` };
    }
  }
}

function readKey(property: AnyNode): string | null {
  if (property.type !== 'Property' || property.computed) return null;
  if (property.key.type === 'Identifier') return property.key.name;
  return property.key.type === 'Literal' ? String(property.key.value) : null;
}
