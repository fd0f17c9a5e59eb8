/**
 * Finds the names that a file uses and does not declare, by the scope rules of strict code: a function declared in a block is local
 * to the block. Not recursive, because a hostile tree could exhaust the stack.
 */
import type { AnyNode } from 'acorn';

/** A use of a name that no scope of the file declares. */
export interface FreeName {
  readonly name: string;
  /** Offset in the code. */
  readonly start: number;
  /** Names that are declared where it is used, innermost scope first. */
  listVisible(): string[];
}

interface Use {
  readonly name: string;
  readonly start: number;
  readonly scope: Scope;
}
type FunctionNode = Extract<
  AnyNode,
  { type: 'FunctionDeclaration' | 'FunctionExpression' | 'ArrowFunctionExpression' }
>;
type ClassNode = Extract<AnyNode, { type: 'ClassDeclaration' | 'ClassExpression' }>;
interface Visit {
  readonly node: AnyNode;
  readonly scope: Scope;
}

/**
 * Lists the uses of undeclared names in the order of the code. Leaves out names that the file tests with `typeof` anywhere: it
 * expects that they may be missing.
 *
 * @param tree of an ES module
 */
export function findFreeNames(tree: AnyNode): FreeName[] {
  const found = new NameCollector();
  found.walk(tree);
  return found.uses
    .filter(({ name, scope }) => !found.optional.has(name) && !isDeclared(name, scope))
    .sort((a, b) => a.start - b.start)
    .map(({ name, start, scope }) => ({ name, start, listVisible: () => listVisible(scope) }));
}

function isDeclared(name: string, scope: Scope): boolean {
  for (let at: Scope | null = scope; at !== null; at = at.outer) if (at.names.has(name)) return true;
  return false;
}

function listVisible(scope: Scope): string[] {
  const names: string[] = [];
  for (let at: Scope | null = scope; at !== null; at = at.outer) names.push(...at.names);
  return names;
}

class NameCollector {
  readonly uses: Use[] = [];
  /** Names that the file tests with `typeof`. */
  readonly optional = new Set<string>();
  #pending: Visit[] = [];

  walk(root: AnyNode): void {
    this.#pending = [{ node: root, scope: new Scope(null, 'function') }];
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop()) this.#visit(next);
  }

  #visit({ node, scope }: Visit): void {
    switch (node.type) {
      case 'Identifier':
        this.uses.push({ name: node.name, start: node.start, scope });
        break;
      case 'FunctionDeclaration':
      case 'FunctionExpression':
      case 'ArrowFunctionExpression':
        this.#visitFunction(node, scope);
        break;
      case 'ClassDeclaration':
      case 'ClassExpression':
        this.#visitClass(node, scope);
        break;
      case 'VariableDeclaration': {
        const owner = node.kind === 'var' ? scope.owner : scope;
        for (const { id, init } of node.declarations) {
          this.#declare(id, owner, scope);
          this.#push(init, scope);
        }
        break;
      }
      case 'CatchClause': {
        const inner = new Scope(scope, 'block');
        if (node.param) this.#declare(node.param, inner, inner);
        this.#push(node.body, inner);
        break;
      }
      case 'StaticBlock':
        this.#pushChildren(node, new Scope(scope, 'function'));
        break;
      case 'BlockStatement':
      case 'ForStatement':
      case 'ForInStatement':
      case 'ForOfStatement':
      case 'SwitchStatement':
        this.#pushChildren(node, new Scope(scope, 'block'));
        break;
      case 'UnaryExpression':
        if (node.operator === 'typeof' && node.argument.type === 'Identifier') this.optional.add(node.argument.name);
        this.#push(node.argument, scope);
        break;
      default:
        this.#visitOther(node, scope);
    }
  }

  /** Visits nodes with identifiers that are not variables, such as property names and labels, and all remaining nodes. */
  #visitOther(node: AnyNode, scope: Scope): void {
    switch (node.type) {
      case 'MemberExpression':
        this.#push(node.object, scope);
        if (node.computed) this.#push(node.property, scope);
        break;
      case 'Property':
      case 'MethodDefinition':
      case 'PropertyDefinition':
        if (node.computed) this.#push(node.key, scope);
        this.#push(node.value, scope);
        break;
      case 'LabeledStatement':
        this.#push(node.body, scope);
        break;
      case 'ImportDeclaration':
        for (const { local } of node.specifiers) scope.names.add(local.name);
        break;
      case 'ExportNamedDeclaration':
        this.#push(node.declaration, scope);
        if (!node.source) for (const { local } of node.specifiers) this.#push(local, scope);
        break;
      case 'BreakStatement':
      case 'ContinueStatement':
      case 'ExportAllDeclaration':
      case 'MetaProperty':
        break;
      default:
        this.#pushChildren(node, scope);
    }
  }

  #visitFunction(node: FunctionNode, scope: Scope): void {
    const inner = new Scope(scope, 'function');
    if (node.type === 'FunctionDeclaration' && node.id) scope.names.add(node.id.name);
    if (node.type === 'FunctionExpression' && node.id) inner.names.add(node.id.name);
    if (node.type !== 'ArrowFunctionExpression') inner.names.add('arguments');
    for (const param of node.params) this.#declare(param, inner, inner);
    this.#push(node.body, inner);
  }

  #visitClass(node: ClassNode, scope: Scope): void {
    const inner = new Scope(scope, 'block');
    if (node.id) (node.type === 'ClassDeclaration' ? scope : inner).names.add(node.id.name);
    this.#push(node.superClass, inner);
    this.#push(node.body, inner);
  }

  /** Declares the names of a pattern. Its defaults and computed keys are evaluated in `scope`. */
  #declare(pattern: AnyNode, owner: Scope, scope: Scope): void {
    const open: (AnyNode | null)[] = [pattern];
    while (open.length > 0) {
      const node = open.pop();
      if (node?.type === 'Identifier') owner.names.add(node.name);
      else if (node?.type === 'ArrayPattern') open.push(...node.elements);
      else if (node?.type === 'ObjectPattern') open.push(...node.properties);
      else if (node?.type === 'RestElement') open.push(node.argument);
      else if (node?.type === 'AssignmentPattern') {
        open.push(node.left);
        this.#push(node.right, scope);
      } else if (node?.type === 'Property') {
        if (node.computed) this.#push(node.key, scope);
        open.push(node.value);
      }
    }
  }

  #push(node: AnyNode | null | undefined, scope: Scope): void {
    if (node) this.#pending.push({ node, scope });
  }

  #pushChildren(parent: AnyNode, scope: Scope): void {
    for (const value of Object.values(parent)) {
      if (Array.isArray(value)) for (const one of value) this.#push(isNode(one) ? one : null, scope);
      else if (isNode(value)) this.#push(value, scope);
    }
  }
}

/** The scope of a block, a function, a class or the file. */
class Scope {
  readonly outer: Scope | null;
  /** The scope that gets the `var` declarations of this one: that of the nearest function, or of the file. */
  readonly owner: Scope;
  readonly names = new Set<string>();

  constructor(outer: Scope | null, kind: 'function' | 'block') {
    this.outer = outer;
    this.owner = kind === 'function' || outer === null ? this : outer.owner;
  }
}

export const isNode = (value: unknown): value is AnyNode =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
