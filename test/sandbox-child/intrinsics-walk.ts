/** Programs that look at everything a realm's global object leads to. They run in plain Node and in a child. */

/** Values that no global leads to, but syntax or a call does. */
const SAMPLES = `({
  asyncFunction: async () => 0, generator: function* () {}, asyncGenerator: async function* () {},
  arrayIterator: [].values(), stringIterator: ''[Symbol.iterator](), matches: 'a'.matchAll(/a/g),
  mapIterator: new Map().values(), setIterator: new Set().values(), helper: [].values().map((x) => x),
  wrapped: Iterator.from({ next() {} }), joined: Iterator.concat([1]), segments: new Intl.Segmenter().segment(''),
  segmentIterator: new Intl.Segmenter().segment('')[Symbol.iterator](), arguments: (function () { 'use strict'; return arguments; })(),
  promise: Promise.resolve(), running: (function* () {})(), runningAsync: (async function* () {})(), error: new Error('x'),
  match: /a/.exec('a'), template: ((strings) => strings)\`a\`, bound: (() => 0).bind(), dateParts: new Intl.NumberFormat().formatToParts(1),
})`;

/** An expression: the paths of everything reachable from these globals, by object. A path is the first found, breadth first. */
const WALK = `((roots) => {
  const samples = ${SAMPLES};
  const paths = new Map();
  const add = (value, path) => {
    if ((typeof value === 'object' || typeof value === 'function') && value !== null && !paths.has(value)) paths.set(value, path);
  };
  for (const name of roots) add(globalThis[name], name);
  for (const name of Object.keys(samples)) add(samples[name], name);
  for (const [object, path] of paths) {
    add(Reflect.getPrototypeOf(object), path + '.[[Prototype]]');
    for (const key of Reflect.ownKeys(object)) {
      const descriptor = Reflect.getOwnPropertyDescriptor(object, key);
      add(descriptor.value, path + '.' + String(key));
      add(descriptor.get, path + '.get ' + String(key));
      add(descriptor.set, path + '.set ' + String(key));
      try { add(object[key], path + '.' + String(key)); } catch {}
    }
  }
  return paths;
})`;

/** An expression: the members of everything reachable from these globals, as sorted paths. */
export const listMembers = (roots: readonly string[]): string => `(() => {
  const paths = ${WALK}(${JSON.stringify(roots)});
  const found = new Set();
  for (const [object, path] of paths) for (const key of Reflect.ownKeys(object)) found.add(path + '.' + String(key));
  return [...found].filter((path) => !/\\.(?:get|set) /.test(path)).sort();
})()`;

/** An expression: the inherited names that an own object cannot be assigned, as sorted paths. */
export const listUnassignable = (roots: readonly string[]): string => `(() => {
  'use strict';
  const found = [];
  for (const [object, path] of ${WALK}(${JSON.stringify(roots)}))
    for (const key of Reflect.ownKeys(object)) {
      const own = Object.create(object);
      try { own[key] = 1; } catch { found.push(path + '.' + String(key)); }
    }
  return found.filter((path) => !/\\.(?:get|set) |unscopables\\)\\./.test(path)).sort();
})()`;

/**
 * An expression: what is reachable from the global object and can be changed, as paths. What two walks do not share is made
 * anew for each.
 */
export const LIST_UNFROZEN = `(() => {
  const names = Object.getOwnPropertyNames(globalThis);
  const [paths, again] = [${WALK}(names), ${WALK}(names)];
  const open = [...paths].filter(([object]) => again.has(object) && !Object.isFrozen(object) && object !== globalThis);
  return open.map(([, path]) => path);
})()`;

/** A program: freezes everything that the global object leads to, and nothing else. */
export const FREEZE_SHARED = `(() => {
  for (const object of ${WALK}(Object.getOwnPropertyNames(globalThis)).keys())
    if (object !== globalThis && !ArrayBuffer.isView(object)) Object.freeze(object);
})()`;
