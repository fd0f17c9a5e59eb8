/**
 * Text of JSON that can be stored. PostgreSQL rejects U+0000, and a lone surrogate has no UTF-8 encoding: both in values and
 * in property names. Bodies of requests, frames of children and what plugins register are checked here, and nowhere else.
 */

/** The text of a refusal after the name of the field. */
export const UNSTORABLE = 'must not contain U+0000 or lone surrogates: remove them, or replace them with U+FFFD';
/** The same as a sentence, where it is not known which field has the text. */
export const HAS_UNSTORABLE =
  'A text contains U+0000 or a lone surrogate, which cannot be stored: remove it, or replace it with U+FFFD.';
const REPLACEMENT = '\u{fffd}';
/** Length of a field's name in a refusal, characters. */
const FIELD_MAX_CHARS = 200;

export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/** Shows what cannot be stored as U+FFFD. For diagnostic text only: anything else is refused rather than altered. */
export const replaceUnstorable = (text: string): string => text.replaceAll('\0', REPLACEMENT).toWellFormed();

/**
 * Finds a text that PostgreSQL cannot store.
 *
 * @param value of JSON, nested no deeper than the stack allows
 * @param accepts which texts are fine. Default: those that PostgreSQL can store
 * @returns the path of the value or property, such as `messages.0.text`; null: there is none
 */
export function findUnstorable(value: unknown, accepts: (text: string) => boolean = isStorable): string | null {
  const path = findPath(value, accepts);
  return path === null ? null : replaceUnstorable(path.join('.').slice(0, FIELD_MAX_CHARS));
}

function findPath(value: unknown, accepts: (text: string) => boolean): string[] | null {
  if (typeof value === 'string') return accepts(value) ? null : [];
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return null;
  for (const [key, inner] of Object.entries(value)) {
    const path = accepts(key) ? findPath(inner, accepts) : [];
    if (path !== null) return [key, ...path];
  }
  return null;
}

/** Changes every text of a JSON value: strings and property names. Returns the same value where nothing changes. */
export function mapTexts<T>(value: T, change: (text: string) => string): T;
export function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return mapItems(value, change);
  let isChanged = false;
  const entries = Object.entries(value).map(([key, inner]): [string, unknown] => {
    const name = change(key);
    const mapped = mapTexts(inner, change);
    isChanged ||= name !== key || mapped !== inner;
    return [name, mapped];
  });
  // Defines own properties, also for a name such as `__proto__`.
  return isChanged ? Object.fromEntries(entries) : value;
}

function mapItems(items: readonly unknown[], change: (text: string) => string): readonly unknown[] {
  const mapped = items.map((item) => mapTexts(item, change));
  return mapped.some((item, index) => item !== items[index]) ? mapped : items;
}
