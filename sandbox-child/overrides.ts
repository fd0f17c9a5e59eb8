/**
 * Lets programs assign the names of frozen inherited properties on their own objects. JavaScript refuses that for data
 * properties: with a frozen `Object.prototype`, `counts.constructor = 1` would throw. Accessors can allow it.
 */

const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;

/** What is done already. */
const known = new WeakSet<object>();

/**
 * Replaces by accessors every property that is writable in the language, of everything reachable from these objects.
 *
 * @returns the replaced values, which can only be reached by reading the properties from now on
 */
export function enableOverrides(roots: Iterable<object>): unknown[] {
  const replaced: unknown[] = [];
  const owners = new Set(roots);
  // The set grows while it is iterated.
  for (const owner of owners) {
    if (known.has(owner)) continue;
    known.add(owner);
    const prototype = getPrototypeOf(owner);
    if (prototype !== null) owners.add(prototype);
    for (const key of ownKeys(owner)) {
      const descriptor = getOwnPropertyDescriptor(owner, key);
      if (descriptor === undefined || !('value' in descriptor)) continue;
      const { value, writable, configurable, enumerable } = descriptor;
      if (typeof key === 'string') addOwner(owners, value);
      // ses makes the methods that it replaces read-only.
      if (!configurable || !(writable || (typeof value === 'function' && typeof key === 'string'))) continue;
      replaced.push(value);
      defineProperty(owner, key, { ...createAccessor(owner, key, value), enumerable: enumerable === true });
    }
  }
  return replaced;
}

/** Methods have no writable properties, and there are a thousand of them. */
function addOwner(owners: Set<object>, value: unknown): void {
  const isOwner = typeof value === 'function' ? Object.hasOwn(value, 'prototype') : typeof value === 'object';
  if (isOwner && value !== null) owners.add(value as object);
}

function createAccessor(owner: object, key: PropertyKey, value: unknown): PropertyDescriptor {
  return {
    get: () => value,
    set(this: unknown, replacement: unknown) {
      if (this === owner || !assign(this, key, replacement))
        throw new TypeError(`Cannot assign to read only property '${String(key)}' of object`);
    },
  };
}

/** Does what an assignment does where the inherited property is writable. */
function assign(target: unknown, key: PropertyKey, value: unknown): boolean {
  if ((typeof target !== 'object' && typeof target !== 'function') || target === null) return false;
  const own = getOwnPropertyDescriptor(target, key);
  if (own === undefined)
    return defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  return own.writable === true && defineProperty(target, key, { value });
}
