/** Estimates how long a JSON value occupies the event loop. */

/** Cost of a value beside its text, bytes. Checking it against the schema takes longer than writing it. */
const VALUE_BYTES = 8;
/** Characters of a text, or bytes of an array, that are checked and written in the time of one byte of small values. */
const RAW_PER_BYTE = 8;

/** The cost of checking and writing a value, in bytes of small values. Reads no more of it than `maxBytes`. */
export function weighValue(value: unknown, maxBytes = Number.POSITIVE_INFINITY): number {
  if (typeof value === 'string') return VALUE_BYTES + value.length / RAW_PER_BYTE;
  if (typeof value !== 'object' || value === null) return VALUE_BYTES;
  if (value instanceof Uint8Array) return VALUE_BYTES + value.byteLength / RAW_PER_BYTE;
  let bytes = VALUE_BYTES;
  if (Array.isArray(value)) {
    for (const item of value) {
      if (bytes > maxBytes) break;
      bytes += weighValue(item, maxBytes - bytes);
    }
    return bytes;
  }
  for (const name in value) {
    if (bytes > maxBytes) break;
    bytes += name.length + weighValue((value as Record<string, unknown>)[name], maxBytes - bytes);
  }
  return bytes;
}
