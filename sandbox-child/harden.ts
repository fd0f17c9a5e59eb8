/**
 * Freezes shared objects, and still lets programs assign properties of the same names on their own objects. JavaScript refuses
 * that for frozen data properties: with a frozen `Object.prototype`, `counts.constructor = 1` would throw. Accessors allow it.
 *
 * Import this before ses: ses freezes the intrinsics with a global `harden` if there is one.
 */

const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { create, freeze, hasOwn, preventExtensions } = Object;
const { getOwnPropertyDescriptor: describeProperty, getOwnPropertyDescriptors: describeProperties } = Object;

/**
 * What iterates arrays and strings. V8 spreads arrays ten times slower, and makes Maps and Sets of them three times slower, after any
 * definition of one of these, so only `freezeIteration` decides whether they become accessors.
 */
const iteration = new Map<object, PropertyKey>();
for (const collection of [[], '']) {
  iteration.set(getPrototypeOf(Object(collection)) ?? {}, Symbol.iterator);
  iteration.set(getPrototypeOf(collection[Symbol.iterator]()) ?? {}, 'next');
}

const hardened = new WeakSet<object>();
/** Getters that return the value of an overridable property. */
const getters = new WeakSet<object>();
/** Setters by name: one serves the property of that name on all objects. */
const setters = new Map<PropertyKey, (replacement: unknown) => void>();

/** Freezes a value and everything reachable from it. Turns writable properties into accessors. */
export function hardenOverridable<T>(root: T): T {
  const found = new Set<object>();
  enqueue(found, root);
  // The set grows while it is iterated.
  for (const object of found) hardenObject(object, found);
  // Only at the end: hardening throws halfway if the plugin left too little stack, and must then begin again.
  for (const object of found) hardened.add(object);
  return root;
}

Object.defineProperty(globalThis, 'harden', { value: hardenOverridable, writable: true, configurable: true });

function enqueue(found: Set<object>, value: unknown): void {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  if (isObject && !hardened.has(value as object)) found.add(value as object);
}

function hardenObject(object: object, found: Set<object>): void {
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
    const { value, get, set, writable, configurable } = readDataOfSes(descriptor);
    enqueue(found, value);
    enqueue(found, get);
    enqueue(found, set);
    // ses makes the methods that it replaces read-only.
    const isOverridable = writable === true || (typeof value === 'function' && typeof key === 'string');
    if (configurable !== true || !isOverridable || iteration.get(object) === key) continue;
    isOverridden = true;
    makeOverridable(object, key, value);
  }
  // The elements of a typed array cannot be frozen.
  if (ArrayBuffer.isView(object) || iteration.has(object)) preventExtensions(object);
  else freeze(object);
  if (isOverridden) readThroughHeir(create(object));
}

/**
 * Freezes the prototypes of arrays, strings and their iterators, which hardening leaves open. Call it before code of a plugin runs.
 *
 * @param isOverridable whether programs may assign `Symbol.iterator` on arrays, which V8 then iterates more slowly
 */
export function freezeIteration(isOverridable: boolean): void {
  for (const [object, key] of iteration) {
    const { value, configurable } = getOwnPropertyDescriptor(object, key) ?? {};
    if (isOverridable && configurable) makeOverridable(object, key, value);
    freeze(object);
    readThroughHeir(create(object));
  }
}

/** Turns a property into an accessor, so that programs can assign its name on objects that inherit it. */
const makeOverridable = (object: object, key: PropertyKey, value: unknown): boolean =>
  defineProperty(object, key, { get: makeGetter(value), set: getSetter(key) });

/** ses has already turned a few properties into accessors. Their setter would call itself once a program copies it to an own object. */
function readDataOfSes(descriptor: PropertyDescriptor): PropertyDescriptor {
  const get: { (): unknown; originalValue?: unknown } | undefined = descriptor.get;
  if (get === undefined || !hasOwn(get, 'originalValue')) return descriptor;
  return { value: get.originalValue, writable: true, configurable: descriptor.configurable ?? false };
}

/**
 * V8 turns an object with many new accessors into a hash table, from which a method is called ten times slower. It turns it
 * back when compiled code reads a property through an object that inherits it.
 */
const readThroughHeir = (heir: Record<PropertyKey, unknown>): unknown => heir.nothing;

/** A built-in method has only `length` and `name`, so nothing is reachable from it. There are two thousand of them. */
const isMethod = (keys: readonly PropertyKey[]): boolean =>
  keys.length === 2 && keys[0] === 'length' && keys[1] === 'name';

/** Libraries that look into the intrinsics (`get-intrinsic`) know by `originalValue` that this was a data property. */
function makeGetter(value: unknown): () => unknown {
  const get: { (): unknown; originalValue?: unknown } = () => value;
  get.originalValue = value;
  getters.add(get);
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

/**
 * Lets `Object.getOwnPropertyDescriptor` show overridable properties as the data properties of the language: programs that copy
 * members to own objects get methods, and those that look for a setter (`immer`) find none. `Reflect` shows the accessors, because
 * a proxy's trap must report what its target really has.
 */
export function describeAsLanguage(): void {
  const methods = {
    getOwnPropertyDescriptor: (object: object, key: PropertyKey) => toLanguage(describeProperty(object, key)),
    getOwnPropertyDescriptors(object: object) {
      const descriptors: Record<PropertyKey, PropertyDescriptor> = describeProperties(object);
      for (const key of ownKeys(descriptors)) {
        const descriptor = descriptors[key];
        const value = toLanguage(descriptor);
        // No assignment: `__proto__` may be a key.
        if (value !== descriptor) defineProperty(descriptors, key, { value });
      }
      return descriptors;
    },
  };
  for (const [name, value] of Object.entries(methods)) defineProperty(Object, name, { value });
}

function toLanguage(descriptor: PropertyDescriptor | undefined): PropertyDescriptor | undefined {
  const get = descriptor?.get;
  if (get === undefined || !getters.has(get)) return descriptor;
  return { value: get(), writable: true, enumerable: descriptor?.enumerable ?? false, configurable: true };
}
