/**
 * Finds the names that a file uses and does not declare, by the scope rules of strict code: a function declared in a block is local
 * to the block. Not recursive, because a hostile tree could exhaust the stack.
 */
import type { AnyNode } from 'acorn';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';

/** A use of a name that no scope of the file declares. */
export interface FreeName {
  readonly name: string;
  /** Offset in the code. */
  readonly start: number;
  /** At most `max` names that are declared where it is used, innermost scope first. */
  listVisible(max: number): string[];
}

interface Use {
  readonly name: string;
  readonly start: number;
}
interface UseIn extends Use {
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
  const { file, optional } = new NameCollector(tree);
  return findUndeclared(file)
    .filter(({ name }) => !optional.has(name))
    .sort((a, b) => a.start - b.start)
    .map(({ name, start, scope }) => ({ name, start, listVisible: (max) => listVisible(scope, max) }));
}

/**
 * Enters the scopes from outside to inside and counts the declarations that hold in each. Looking up each use in all scopes around
 * it could take hours.
 */
function findUndeclared(file: Scope): UseIn[] {
  const found: UseIn[] = [];
  const declared = new AmountsByKey();
  const open = [{ scope: file, isEntered: false }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { scope, isEntered } = next;
    for (const name of scope.names) declared.add(name, isEntered ? -1 : 1);
    if (isEntered) continue;
    for (const use of scope.uses) if (declared.get(use.name) === 0) found.push({ ...use, scope });
    open.push({ scope, isEntered: true });
    for (const inner of scope.inner) open.push({ scope: inner, isEntered: false });
  }
  return found;
}

function listVisible(scope: Scope, max: number): string[] {
  const names: string[] = [];
  for (let at: Scope | null = scope; at !== null; at = at.outer) {
    for (const name of at.names) {
      if (names.length >= max) return names;
      names.push(name);
    }
  }
  return names;
}

class NameCollector {
  readonly file = new Scope(null, 'function');
  /** Names that the file tests with `typeof`. */
  readonly optional = new Set<string>();
  readonly #pending: Visit[] = [];

  constructor(root: AnyNode) {
    this.#push(root, this.file);
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop()) this.#visit(next);
  }

  #visit({ node, scope }: Visit): void {
    switch (node.type) {
      case 'Identifier':
        scope.uses.push({ name: node.name, start: node.start });
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
  readonly uses: Use[] = [];
  readonly inner: Scope[] = [];

  constructor(outer: Scope | null, kind: 'function' | 'block') {
    this.outer = outer;
    this.owner = kind === 'function' || outer === null ? this : outer.owner;
    outer?.inner.push(this);
  }
}

export const isNode = (value: unknown): value is AnyNode =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
