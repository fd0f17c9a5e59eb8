/** Writes values as TypeScript that makes them, on one line. */
import { literal, propertyKey } from './printer.ts';

/** `{ city: 'Bern' }`, `[1, 2]`, `new Uint8Array([104, 105])`. What is undefined is left out of objects. */
export function valueText(value: unknown): string {
  if (value instanceof Uint8Array) return `new Uint8Array([${value.join(', ')}])`;
  if (Array.isArray(value)) return `[${value.map(valueText).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return literal(value);
  const given = Object.entries(value).filter(([, member]) => member !== undefined);
  const members = given.map(([key, member]) => `${propertyKey(key)}: ${valueText(member)}`);
  return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`;
}
