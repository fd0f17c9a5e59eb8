/** Texts that the service can store. PostgreSQL rejects U+0000, and a lone surrogate has no UTF-8 encoding. */

/** `JSON.stringify` writes both as escapes. Text such as `\\u0000` also matches, which costs one pass and changes nothing. */
const MAY_BE_UNSTORABLE = /\\u(?:0000|d[89a-f])/;

/** Replaces characters that the transcript cannot store: half surrogate pairs and NUL. The service refuses a text that is too long. */
export const toStorable = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd');

/** Replaces such characters in all texts of a JSON value: strings and property names. */
export function toStorableJson<T>(value: T): T {
  const json = JSON.stringify(value);
  return MAY_BE_UNSTORABLE.test(json) ? JSON.parse(json, replaceInValue) : value;
}

function replaceInValue(_name: string, value: unknown): unknown {
  if (typeof value === 'string') return toStorable(value);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [toStorable(name), inner]));
}
