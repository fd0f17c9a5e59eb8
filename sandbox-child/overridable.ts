/** Prepares classes for plugins, whose prototypes are frozen. */

/**
 * Gives classes their names for `Object.prototype.toString`, and makes their methods assignable on objects that inherit them:
 * on a frozen prototype, `response.json = …` would throw.
 */
export function makeOverridable(classes: Readonly<Record<string, abstract new (...given: never[]) => object>>): void {
  for (const [name, { prototype }] of Object.entries(classes)) {
    Object.defineProperty(prototype, Symbol.toStringTag, { value: name, configurable: true });
    for (const key of Object.getOwnPropertyNames(prototype)) makeKeyOverridable(prototype, key);
  }
}

function makeKeyOverridable(prototype: object, key: string): void {
  const { value } = Object.getOwnPropertyDescriptor(prototype, key) ?? {};
  // Accessors and constants cannot be assigned in Node either.
  if (typeof value !== 'function') return;
  Object.defineProperty(prototype, key, {
    get: () => value,
    set(this: object, given: unknown) {
      if (this === prototype) throw new TypeError(`Cannot assign to read only property '${key}' of a frozen prototype`);
      Object.defineProperty(this, key, { value: given, writable: true, enumerable: true, configurable: true });
    },
    enumerable: key !== 'constructor',
    configurable: true,
  });
}
