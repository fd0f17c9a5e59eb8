/** The regular expressions of a parsed source file. */
import type { AnyNode } from 'acorn';

export interface Expression {
  readonly source: string;
  readonly flags: string;
}

/** Literals, and calls of `RegExp` with texts that are constants of the same file. Others depend on what the program reads. */
export function findExpressions(nodes: readonly AnyNode[]): Expression[] {
  const constants = new Map<string, AnyNode>();
  for (const node of nodes)
    if (node.type === 'VariableDeclaration' && node.kind === 'const')
      for (const { id, init } of node.declarations)
        if (id.type === 'Identifier' && init && !constants.has(id.name)) constants.set(id.name, init);
  return nodes.flatMap((node) => readExpression(node, constants) ?? []);
}

type Constants = ReadonlyMap<string, AnyNode>;

function readExpression(node: AnyNode, constants: Constants): Expression | null {
  if (node.type === 'Literal' && node.regex) return { source: node.regex.pattern, flags: node.regex.flags };
  if (node.type !== 'NewExpression' && node.type !== 'CallExpression') return null;
  if (node.callee.type !== 'Identifier' || node.callee.name !== 'RegExp') return null;
  const [source, flags = ''] = node.arguments.map((argument) => readText(argument, constants));
  return typeof source === 'string' && typeof flags === 'string' ? { source, flags } : null;
}

/** The text of a constant; null: it is not known before the program runs. */
function readText(node: AnyNode | undefined, constants: Constants): string | null {
  switch (node?.type) {
    case 'Literal':
      return typeof node.value === 'string' || typeof node.value === 'number' ? String(node.value) : null;
    case 'Identifier': {
      const value = constants.get(node.name);
      return value === undefined || value.type === 'Identifier' ? null : readText(value, constants);
    }
    case 'TaggedTemplateExpression':
      return readTemplate(node.quasi, constants, 'raw');
    case 'TemplateLiteral':
      return readTemplate(node, constants, 'cooked');
    default:
      return null;
  }
}

function readTemplate(
  node: AnyNode & { type: 'TemplateLiteral' },
  constants: Constants,
  form: 'raw' | 'cooked',
): string | null {
  const values = node.expressions.map((expression) => readText(expression, constants));
  if (values.includes(null)) return null;
  return node.quasis.map(({ value }, index) => `${value[form]}${values[index] ?? ''}`).join('');
}
