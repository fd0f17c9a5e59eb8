/**
 * Shows values as Node's `util.inspect` does, on one line. Node's own cannot be used: it reads `constructor` as a data property,
 * which the realm's prototypes do not have. Getters are not called; traps of proxies are, and may throw.
 */
import { text, UNPRINTABLE } from './text.ts';

/** Levels of objects inside each other that are shown. Node shows two, and hides what a log is read for. */
export const DEPTH = 6;
/** Items of a list, and fields of an object, that are shown. */
const ITEMS_MAX = 100;
const FIELDS_MAX = 1_000;
/** Missing items that are counted one by one. */
const HOLES_MAX = 1_000;
/** Longest text of one value, characters: enough for the longest log line. The rest is left out. */
const TEXT_MAX = 16_384;

/** @param depth null: without a limit */
export const inspect = (value: unknown, depth: number | null = DEPTH): string =>
  new Inspection(depth ?? Number.POSITIVE_INFINITY).show(value);

class Inspection {
  readonly #depth: number;
  readonly #ancestors: object[] = [];
  /** Objects that contain themselves, with their numbers. */
  readonly #circular = new Map<object, number>();
  #length = 0;

  constructor(depth: number) {
    this.#depth = depth;
  }

  show(value: unknown): string {
    const shown = this.#showAny(value);
    this.#length += shown.length;
    return shown;
  }

  #showAny(value: unknown): string {
    if (typeof value === 'string') return quote(value.slice(0, TEXT_MAX));
    if (typeof value === 'bigint') return `${value}n`;
    if (Object.is(value, -0)) return '-0';
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return String(value);
    if (this.#ancestors.includes(value)) return `[Circular *${this.#numberOf(value)}]`;
    if (this.#length > TEXT_MAX) return '[…]';
    this.#ancestors.push(value);
    try {
      const shown = this.#showObject(value);
      const number = this.#circular.get(value);
      return number === undefined ? shown : `<ref *${number}> ${shown}`;
    } catch {
      return UNPRINTABLE;
    } finally {
      this.#ancestors.pop();
    }
  }

  #numberOf(value: object): number {
    const number = this.#circular.get(value) ?? this.#circular.size + 1;
    this.#circular.set(value, number);
    return number;
  }

  #showObject(value: object): string {
    const isTooDeep = this.#ancestors.length > this.#depth + 1;
    const name = findClassName(value);
    const simple = showSimple(value);
    if (simple !== null) {
      const fields = isTooDeep ? [] : this.#showFields(value, value instanceof String ? 'indexed' : []);
      return fields.length === 0 ? simple : `{ ${[simple, ...fields].join(', ')} }`;
    }
    if (isTooDeep) return `[${Array.isArray(value) ? 'Array' : (name ?? 'Object: null prototype')}]`;
    const prefix = describeClass(value, name);
    if (Array.isArray(value) || isTypedArray(value)) {
      const head = Array.isArray(value) && name === 'Array' ? '' : `${name}(${value.length}) `;
      return `${head}${enclose('[', [...this.#showItems(value), ...this.#showFields(value, 'indexed')], ']')}`;
    }
    if (value instanceof Map) return this.#showCollection(value, Map.prototype, name ?? 'Map');
    if (value instanceof Set) return this.#showCollection(value, Set.prototype, name ?? 'Set');
    const entries = [...showHidden(value), ...this.#showFields(value, [])];
    const isPlain = prefix === 'Object';
    return entries.length === 0 && !isPlain
      ? `${prefix} {}`
      : `${isPlain ? '' : `${prefix} `}${enclose('{', entries, '}')}`;
  }

  #showItems(list: ArrayLike<unknown>): string[] {
    const shown: string[] = [];
    let index = 0;
    while (index < list.length && shown.length < ITEMS_MAX && this.#length <= TEXT_MAX) {
      const found = Reflect.getOwnPropertyDescriptor(list, index);
      if (found === undefined) {
        const holes = countHoles(list, index);
        shown.push(`<${countOf(holes, 'empty item')}>`);
        index += holes;
        continue;
      }
      shown.push(this.#showDescriptor(found));
      index += 1;
    }
    if (index < list.length) shown.push(`... ${countOf(list.length - index, 'more item')}`);
    return shown;
  }

  /** @param prototype whose `forEach` and `size` are used: the value may have its own */
  #showCollection(value: object, prototype: Map<unknown, unknown> | Set<unknown>, name: string): string {
    const shown: string[] = [];
    const add = (item: unknown, key: unknown): void => {
      if (shown.length >= ITEMS_MAX) return;
      shown.push(prototype === Map.prototype ? `${this.show(key)} => ${this.show(item)}` : this.show(item));
    };
    Reflect.apply(prototype.forEach, value, [add]);
    const size = Number(Reflect.get(prototype, 'size', value));
    if (size > shown.length) shown.push(`... ${countOf(size - shown.length, 'more item')}`);
    return `${name}(${size}) ${enclose('{', [...shown, ...this.#showFields(value, [])], '}')}`;
  }

  /** @param without fields that are shown elsewhere; `indexed`: the items of a list */
  #showFields(value: object, without: readonly PropertyKey[] | 'indexed'): string[] {
    const shown: string[] = [];
    for (const key of Reflect.ownKeys(value)) {
      if (without === 'indexed' ? isIndex(key) : without.includes(key)) continue;
      const found = Reflect.getOwnPropertyDescriptor(value, key);
      if (!found?.enumerable) continue;
      if (shown.length >= FIELDS_MAX || this.#length > TEXT_MAX) {
        shown.push('...');
        break;
      }
      shown.push(`${showKey(key)}: ${this.#showDescriptor(found)}`);
    }
    const cause = value instanceof Error ? Reflect.getOwnPropertyDescriptor(value, 'cause') : undefined;
    if (cause?.enumerable === false) shown.push(`[cause]: ${this.#showDescriptor(cause)}`);
    return shown;
  }

  #showDescriptor({ value, get, set }: PropertyDescriptor): string {
    if (get === undefined && set === undefined) return this.show(value);
    return `[${[...(get ? ['Getter'] : []), ...(set ? ['Setter'] : [])].join('/')}]`;
  }
}

const countOf = (count: number, thing: string): string => `${count} ${thing}${count === 1 ? '' : 's'}`;
const enclose = (open: string, entries: readonly string[], close: string): string =>
  entries.length === 0 ? `${open}${close}` : `${open} ${entries.join(', ')} ${close}`;

const ESCAPES: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\b': '\\b',
  '\f': '\\f',
  '\v': '\\v',
};

function quote(value: string): string {
  const mark = !value.includes("'") ? "'" : !value.includes('"') ? '"' : !value.includes('`') ? '`' : "'";
  const escaped = value.replaceAll('\\', '\\\\').replaceAll(/\p{Cc}/gu, (char) => {
    const code = char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0');
    return ESCAPES[char] ?? `\\x${code}`;
  });
  return `${mark}${mark === "'" ? escaped.replaceAll("'", "\\'") : escaped}${mark}`;
}

/** Counts missing items: many at once by the list's own keys, of which a sparse list has few. */
function countHoles(list: ArrayLike<unknown>, from: number): number {
  let end = from;
  while (end < list.length && !Object.hasOwn(list, end) && end - from < HOLES_MAX) end += 1;
  if (end - from < HOLES_MAX) return end - from;
  const next = Reflect.ownKeys(list).find((key) => isIndex(key) && Number(key) >= end);
  return (next === undefined ? list.length : Number(next)) - from;
}

const isIndex = (key: PropertyKey): boolean => typeof key === 'string' && /^(0|[1-9]\d{0,9})$/.test(key);
const showKey = (key: PropertyKey): string => {
  if (typeof key === 'symbol') return String(key);
  const name = String(key);
  return /^[A-Za-z_$][\w$]*$/.test(name) ? (name === '__proto__' ? "['__proto__']" : name) : quote(name);
};

/** The name of the nearest class; null without a prototype. */
function findClassName(value: object): string | null {
  for (
    let prototype = Reflect.getPrototypeOf(value);
    prototype !== null;
    prototype = Reflect.getPrototypeOf(prototype)
  ) {
    const found = Reflect.getOwnPropertyDescriptor(prototype, 'constructor');
    // The realm's prototypes have accessors, so that programs can assign the names that they inherit.
    const owner: unknown = found?.value ?? (found?.get ? Reflect.get(prototype, 'constructor') : undefined);
    if (typeof owner === 'function' && typeof owner.name === 'string' && owner.name !== '') return owner.name;
  }
  return null;
}

function describeClass(value: object, name: string | null): string {
  const base = name ?? '[Object: null prototype]';
  const isField = Reflect.getOwnPropertyDescriptor(value, Symbol.toStringTag)?.enumerable === true;
  const tag = isField ? '' : Reflect.get(value, Symbol.toStringTag);
  return typeof tag === 'string' && tag !== '' && tag !== name ? `${base} [${tag}]` : base;
}

const isTypedArray = (value: object): value is Uint8Array => ArrayBuffer.isView(value) && !(value instanceof DataView);

/** Returns the text of a value that is shown without braces. Null for other objects. */
function showSimple(value: object): string | null {
  if (typeof value === 'function') return showFunction(value);
  if (value instanceof Error) return text(value);
  if (value instanceof Date) {
    const time = Date.prototype.getTime.call(value);
    return Number.isNaN(time) ? 'Invalid Date' : new Date(time).toISOString();
  }
  if (value instanceof RegExp) return RegExp.prototype.toString.call(value);
  if (value instanceof URL) return value.href;
  for (const type of [Number, String, Boolean, Symbol, BigInt]) {
    if (!(value instanceof type)) continue;
    const primitive: unknown = Reflect.apply(type.prototype.valueOf, value, []);
    return `[${type.name}: ${typeof primitive === 'string' ? quote(primitive) : `${String(primitive)}${type === BigInt ? 'n' : ''}`}]`;
  }
  return null;
}

function showFunction(value: object): string {
  const source = Function.prototype.toString.call(value);
  const name = Reflect.getOwnPropertyDescriptor(value, 'name')?.value;
  const isNamed = typeof name === 'string' && name !== '';
  if (source.startsWith('class') && source.endsWith('}')) {
    const base = Reflect.getPrototypeOf(value);
    const baseName = typeof base === 'function' ? base.name : '';
    return `[class ${isNamed ? name : '(anonymous)'}${baseName === '' ? '' : ` extends ${baseName}`}]`;
  }
  const kind = findClassName(value) ?? 'Function';
  return isNamed ? `[${kind}: ${name}]` : `[${kind} (anonymous)]`;
}

/** Shows contents that only methods can reach. */
function showHidden(value: object): string[] {
  if (value instanceof ArrayBuffer) return [`byteLength: ${value.byteLength}`];
  return value instanceof WeakMap || value instanceof WeakSet ? ['<items unknown>'] : [];
}
