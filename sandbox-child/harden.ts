/**
 * Freezes what programs share, and lets them assign its names on their own objects. JavaScript refuses that for frozen data
 * properties: with a frozen `Object.prototype`, `counts.constructor = 1` would throw. Accessors can allow it.
 *
 * Imported before ses, which takes a `harden` that is there as the engine's own, and freezes the intrinsics with it.
 */

const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { create, freeze, preventExtensions } = Object;

const hardened = new WeakSet<object>();
/** The setters of overridden names, which know only their name. */
const setters = new Map<PropertyKey, (replacement: unknown) => void>();

/** Freezes a value and everything reachable from it. What is writable in it becomes an accessor. */
export function hardenOverridable<T>(root: T): T {
  const found = new Set<object>();
  enqueue(found, root);
  // The set grows while it is iterated.
  for (const object of found) hardenObject(object, found);
  return root;
}

Object.defineProperty(globalThis, 'harden', { value: hardenOverridable, writable: true, configurable: true });

function enqueue(found: Set<object>, value: unknown): void {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  if (isObject && !hardened.has(value as object)) found.add(value as object);
}

function hardenObject(object: object, found: Set<object>): void {
  hardened.add(object);
  enqueue(found, getPrototypeOf(object));
  const keys = ownKeys(object);
  if (isMethod(keys)) {
    freeze(object);
    return;
  }
  let isOverridden = false;
  for (const key of keys) {
    const descriptor = getOwnPropertyDescriptor(object, key);
    if (descriptor === undefined) continue;
    const { value, get, set, writable, configurable } = descriptor;
    enqueue(found, value);
    enqueue(found, get);
    enqueue(found, set);
    // ses makes the methods that it replaces read-only.
    const isOverridable = writable === true || (typeof value === 'function' && typeof key === 'string');
    if (configurable !== true || !isOverridable) continue;
    isOverridden = true;
    defineProperty(object, key, { get: makeGetter(value), set: getSetter(key) });
  }
  // The elements of a typed array cannot be frozen.
  if (ArrayBuffer.isView(object)) preventExtensions(object);
  else freeze(object);
  if (isOverridden) readThroughHeir(create(object));
}

/**
 * V8 turns an object with many new accessors into a hash table, from which a method is called ten times slower. It turns it
 * back when compiled code reads a property through an object that inherits it.
 */
const readThroughHeir = (heir: Record<PropertyKey, unknown>): unknown => heir.nothing;

/** Built-in methods, of which there are two thousand, have nothing to follow. */
const isMethod = (keys: readonly PropertyKey[]): boolean =>
  keys.length === 2 && keys[0] === 'length' && keys[1] === 'name';

/** Libraries that look into the intrinsics (`get-intrinsic`) know by `originalValue` that this was a data property. */
function makeGetter(value: unknown): () => unknown {
  const get: { (): unknown; originalValue?: unknown } = () => value;
  get.originalValue = value;
  return freeze(get);
}

function getSetter(key: PropertyKey): (replacement: unknown) => void {
  const known = setters.get(key);
  if (known !== undefined) return known;
  const { set } = {
    set(this: unknown, replacement: unknown): void {
      if (!assign(this, key, replacement))
        throw new TypeError(`Cannot assign to read only property '${String(key)}' of object`);
    },
  };
  setters.set(key, freeze(set));
  return set;
}

/** Does what an assignment does where the inherited property is writable. */
function assign(target: unknown, key: PropertyKey, value: unknown): boolean {
  if ((typeof target !== 'object' && typeof target !== 'function') || target === null) return false;
  const own = getOwnPropertyDescriptor(target, key);
  if (own === undefined)
    return defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  return own.writable === true && defineProperty(target, key, { value });
}
