/**
 * Finds the globals of the language that a bundle uses and does not replace. They are declared as constants around it, so V8 resolves
 * them when it compiles the bundle. Each use of another global is a search through the scopes of ses, 150 ns, as long as a short call of
 * `JSON.parse`.
 */

/** Length of the text around a name that is searched for an assignment, characters. Bounded, because an author chooses the text. */
const AROUND_CHARS = 80;
const GLOBAL_OBJECT = '(?<![.\\w$])(?:globalThis|self|global)\\b';
/** Replaces globals whose names are elsewhere: `globalThis[name] = …`, `Object.assign(globalThis, polyfills)`. */
const REPLACES_ANY = new RegExp(
  `${GLOBAL_OBJECT}\\s*\\[[^\\]"'\`]{0,${AROUND_CHARS}}\\]\\s*(?:\\|\\||&&|\\?\\?)?=(?!=)|\\b(?:assign|set|defineProperty|defineProperties)\\(\\s*${GLOBAL_OBJECT}\\s*,(?!\\s*["'\`])`,
);
/** Behind a name that is assigned or declared: `Date = …`, `globalThis.Date = …`, `globalThis['Date'] = …`. */
const ASSIGNED = /^(?:["'`]\s*\])?\s*(?:\|\||&&|\?\?)?=(?![=>])/;
/** Before a name that is defined: `Object.defineProperty(globalThis, 'Date', …)`, `Reflect.set(getGlobal(), 'Date', …)`. */
const DEFINED = /\b(?:defineProperty|set)\([^"'`]*,\s*["'`]$/;
/**
 * Uses of the symbol except `x[Symbol.iterator]` that is read, called or defined: the symbol may have another name there, as in
 * `const { iterator } = Symbol`.
 */
const ASSIGNS_ITERATOR = /\bSymbol\.iterator\b(?!\s*\](?!\s*=(?![=>])))|\bSymbol\s*(?:\?\.|\[)|\}\s*=\s*Symbol\b/;
/** `Object.assign(list, { [Symbol.iterator]: … })`. */
const COPIES = /\bassign\(/;

/**
 * Returns those of the names that the source uses and does not seem to replace. A name that it only seems to replace costs time. One
 * that it replaces in a way which is not recognized changes `globalThis`, and not what the bundle reads by the bare name; a destructuring
 * assignment to the bare name throws.
 */
export function findConstantGlobals(source: string, names: readonly string[]): string[] {
  if (REPLACES_ANY.test(source)) return [];
  const used = new Set<string>();
  const replaced = new Set<string>();
  for (const { 0: name, index } of source.matchAll(new RegExp(`\\b(?:${names.join('|')})\\b`, 'g'))) {
    if (replaced.has(name)) continue;
    const end = index + name.length;
    const isReplaced =
      ASSIGNED.test(source.slice(end, end + AROUND_CHARS)) ||
      DEFINED.test(source.slice(Math.max(index - AROUND_CHARS, 0), index));
    (isReplaced ? replaced : used).add(name);
  }
  return [...used].filter((name) => !replaced.has(name));
}

/** Whether a bundle may assign `Symbol.iterator` on an object that inherits it, as `mobx` 6 does on its arrays. */
export const mayAssignIterator = (source: string): boolean =>
  ASSIGNS_ITERATOR.test(source) || (source.includes('[Symbol.iterator]') && COPIES.test(source));
