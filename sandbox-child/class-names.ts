/** Gives classes their names, which the bundler shortens, also for `Object.prototype.toString`. */
export function nameClasses(classes: Readonly<Record<string, abstract new (...given: never[]) => object>>): void {
  for (const [name, owner] of Object.entries(classes)) {
    Object.defineProperty(owner, 'name', { value: name, configurable: true });
    Object.defineProperty(owner.prototype, Symbol.toStringTag, { value: name, configurable: true });
  }
}
