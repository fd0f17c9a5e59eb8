/** An `Error` that a library may add properties to: what `inject` of esbuild puts in the place of the frozen one. */
const Frozen = globalThis.Error;
const Own = function (...given: unknown[]): unknown {
  return Reflect.construct(Frozen, given, new.target ?? Own);
};
// Shares the prototype, so that `instanceof` knows every error.
Own.prototype = Frozen.prototype;
Object.setPrototypeOf(Own, Frozen);

export { Own as Error };
