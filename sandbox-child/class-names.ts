/** Sets the names of classes, which the bundler shortens, and their tag for `Object.prototype.toString`. */
export function nameClasses(classes: Readonly<Record<string, abstract new (...given: never[]) => object>>): void {
  for (const [name, owner] of Object.entries(classes)) {
    Object.defineProperty(owner, 'name', { value: name, configurable: true });
    Object.defineProperty(owner.prototype, Symbol.toStringTag, { value: name, configurable: true });
  }
}
