/** Gives classes their names for `Object.prototype.toString`. */
export function nameClasses(classes: Readonly<Record<string, abstract new (...given: never[]) => object>>): void {
  for (const [name, { prototype }] of Object.entries(classes))
    Object.defineProperty(prototype, Symbol.toStringTag, { value: name, configurable: true });
}
