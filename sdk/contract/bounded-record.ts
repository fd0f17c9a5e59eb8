/** Records of untrusted data. */
import { z } from 'zod';
import { checkEntry } from './bounded-entry.ts';

interface Definition extends z.core.$ZodRecordDef {
  readonly entriesMax: number;
}

/**
 * A record that is refused at its first fault. zod's own makes an issue of each entry, and checks all before it counts them:
 * the 95,000 entries of one frame stopped the thread for half a second.
 */
const BoundedRecord = z.core.$constructor<z.ZodRecord, Definition>('BoundedRecord', (schema, definition) => {
  z.ZodRecord.init(schema, definition);
  const { valueType, entriesMax } = definition;
  const parseRecord = schema._zod.parse;
  schema._zod.parse = (payload, context) => {
    const given = payload.value;
    if (!z.core.util.isPlainObject(given)) return parseRecord(payload, context);
    const names = Object.keys(given);
    if (names.length > entriesMax) {
      payload.issues.push({ code: 'too_big', origin: 'record', maximum: entriesMax, input: given, inst: schema });
      return payload;
    }
    const read: Record<string, unknown> = {};
    for (const name of names) {
      // An assignment to this name would replace the prototype.
      if (name === '__proto__') continue;
      const entry = checkEntry(valueType, [name, given[name]], payload, context);
      if (!entry) return payload;
      read[name] = entry.value;
    }
    payload.value = read;
    return payload;
  };
});

/** An object of any names, with at most `entriesMax` values of one schema. */
export const boundedRecord = <Value extends z.ZodType>(value: Value, entriesMax: number) =>
  new BoundedRecord({ type: 'record', keyType: z.string(), valueType: value, entriesMax }) as unknown as z.ZodRecord<
    z.ZodString,
    Value
  >;
