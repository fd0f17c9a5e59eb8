/** The constructors of functions, which make code of text. Those of ses take plain functions only. */

interface FunctionKind {
  readonly name: string;
  /** The beginning of a function. */
  readonly syntax: string;
  readonly sample: object;
}

const kinds: readonly FunctionKind[] = [
  { name: 'Function', syntax: 'function', sample: () => undefined },
  { name: 'GeneratorFunction', syntax: 'function*', sample: function* () {} },
  { name: 'AsyncFunction', syntax: 'async function', sample: async () => undefined },
  { name: 'AsyncGeneratorFunction', syntax: 'async function*', sample: async function* () {} },
];

type Constructor = new (...texts: string[]) => object;
/** The language's own constructors, by kind. They find syntax errors; the functions that they make are never called. */
const originals = new Map(kinds.map((kind) => [kind, kind.sample.constructor as Constructor]));

/**
 * Replaces the constructors that every function leads to. One realm in a process has one constructor of a kind.
 *
 * @param realm the global object that sloppy functions have as their `this`
 * @param evaluate evaluates an expression in the realm
 * @returns `Function`
 */
export function replaceFunctionConstructors(realm: object, evaluate: (source: string) => unknown): object {
  const [plain, ...others] = kinds.map((kind) => replaceConstructor(kind, realm, evaluate));
  for (const other of others) Object.setPrototypeOf(other as object, plain as object);
  return plain as object;
}

function replaceConstructor(kind: FunctionKind, realm: object, evaluate: (source: string) => unknown): object {
  const prototype: object = Object.getPrototypeOf(kind.sample);
  const constructors = {
    // No arrow function: most libraries call it with `new`, and some extend it.
    [kind.name]: function (this: unknown, ...texts: unknown[]) {
      const made = evaluate(writeFunction(kind, texts)) as () => unknown;
      const isExtended = new.target !== undefined && new.target !== constructors[kind.name];
      const extension: unknown = isExtended ? new.target.prototype : null;
      if (isObject(extension)) Object.setPrototypeOf(made, extension);
      return kind.syntax === 'function' ? giveSloppyThis(made, realm) : made;
    },
  };
  const made = constructors[kind.name] as object;
  define(made, { prototype, length: 1 });
  define(prototype, { constructor: made });
  return made;
}

function writeFunction(kind: FunctionKind, texts: readonly unknown[]): string {
  const strings = texts.map((text) => `${text}`);
  const body = strings.pop() ?? '';
  const parameters = strings.join(',');
  const Original = originals.get(kind) as Constructor;
  // Each alone, so that nothing that begins in the parameters ends in the body.
  new Original(parameters, '');
  new Original(body);
  return `(${kind.syntax} anonymous(${parameters}\n) {\n${body}\n})`;
}

/**
 * Code of ses is strict, but libraries find the global object with `Function('return this')()`: where the text names `this`, it
 * is the realm's global object if the caller gives none.
 */
function giveSloppyThis(made: () => unknown, realm: object): () => unknown {
  if (!/\bthis\b/.test(Function.prototype.toString.call(made))) return made;
  const handler: ProxyHandler<() => unknown> = Object.freeze({
    apply: (target: () => unknown, self: unknown, values: unknown[]) => Reflect.apply(target, self ?? realm, values),
  });
  const proxy = new Proxy(made, handler);
  define(made.prototype, { constructor: proxy });
  return proxy;
}

const isObject = (value: unknown): value is object =>
  (typeof value === 'object' && value !== null) || typeof value === 'function';

function define(owner: object, values: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(values)) Object.defineProperty(owner, name, { value });
}
