/**
 * The end of a bundle's scope chain. `build-child.ts` puts it in the place of ses's own, in which every name exists and a
 * misspelt one reads as undefined. Here an undeclared name is a ReferenceError, and `typeof` of it is allowed.
 */

/**
 * Behind this scope is the global object of the process, so a name of that object reads as undefined: it must not be found
 * there. The lookup of any other name goes on to that object and finds nothing, which V8 reports as the language demands.
 */
export const strictScopeTerminator = new Proxy(Object.freeze({ __proto__: null }), {
  has: (_target, name) => name in globalThis,
  get: () => undefined,
  set: (_target, name) => {
    throw new ReferenceError(`${String(name)} is not defined`);
  },
});
