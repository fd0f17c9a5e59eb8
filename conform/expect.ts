/** Compares what a deployment answered with what a sentence promises. */

/** The deployment breaks the sentence. The message is the evidence. */
export class Mismatch extends Error {}

/** The row does not apply to this deployment or this run. The message says why. */
export class Skipped extends Error {}

const SHOWN_CHARS = 400;

type Check = (value: unknown) => boolean;

/**
 * Compares part by part: an object's listed fields, an array's items, a RegExp with a text, a function as a predicate, and
 * anything else by value.
 *
 * @throws Mismatch that names the first difference
 */
export function expect(actual: unknown, wanted: unknown, about = 'the answer'): void {
  const difference = findDifference(actual, wanted, '');
  if (difference !== null) throw new Mismatch(`${about}: ${difference}; it was ${show(actual)}`);
}

/** @throws Mismatch unless the condition holds */
export function ensure(condition: unknown, evidence: string): void {
  if (!condition) throw new Mismatch(evidence);
}

export const isText: Check = (value) => typeof value === 'string' && value !== '';
export const isNumber: Check = (value) => typeof value === 'number';
export const isBoolean: Check = (value) => typeof value === 'boolean';
export const isList: Check = (value) => Array.isArray(value);
export const isTime: Check = (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value));
export const isHash: Check = (value) => typeof value === 'string' && /^[0-9a-f]{64}$/.test(value);
export const oneOf =
  (...values: readonly unknown[]): Check =>
  (value) =>
    values.includes(value);
/** The text of an error. A fault of the network names its cause below. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : `${error.name}: ${error.message}`;
}

/** A list with an item that fits. */
export const holding =
  (wanted: unknown): Check =>
  (value) =>
    Array.isArray(value) && value.some((item) => findDifference(item, wanted, '') === null);

function findDifference(actual: unknown, wanted: unknown, path: string): string | null {
  const at = path === '' ? 'it' : path;
  if (typeof wanted === 'function') return (wanted as Check)(actual) ? null : `${at} is ${show(actual)}`;
  if (wanted instanceof RegExp) {
    return typeof actual === 'string' && wanted.test(actual) ? null : `${at} is ${show(actual)} and not ${wanted}`;
  }
  if (typeof wanted !== 'object' || wanted === null) {
    return Object.is(actual, wanted) ? null : `${at} is ${show(actual)} and not ${show(wanted)}`;
  }
  if (typeof actual !== 'object' || actual === null) return `${at} is ${show(actual)} and not ${show(wanted)}`;
  if (Array.isArray(wanted) && (!Array.isArray(actual) || actual.length !== wanted.length))
    return `${at} is ${show(actual)} and not ${show(wanted)}`;
  for (const [name, part] of Object.entries(wanted)) {
    const value: unknown = (actual as Record<string, unknown>)[name];
    const difference = findDifference(value, part, path === '' ? name : `${path}.${name}`);
    if (difference !== null) return difference;
  }
  return null;
}

function show(value: unknown): string {
  const text = value instanceof RegExp ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;
}
