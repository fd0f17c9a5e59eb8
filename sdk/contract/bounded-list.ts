/** Lists of untrusted data. */
import { z } from 'zod';
import { checkEntry } from './bounded-entry.ts';

interface Definition extends z.core.$ZodArrayDef {
  readonly itemsMax: number;
}

/**
 * A list that is refused at its first wrong item. zod's own makes issues of all items: those of the longest list, or of lists in
 * a list, stopped the thread for a quarter of a second.
 */
const BoundedList = z.core.$constructor<z.ZodArray, Definition>('BoundedList', (schema, definition) => {
  z.ZodArray.init(schema, definition);
  const { element, itemsMax } = definition;
  const parseList = schema._zod.parse;
  schema._zod.parse = (payload, context) => {
    const given = payload.value;
    // zod refuses a list that is too long before it reads the items.
    if (!Array.isArray(given) || given.length > itemsMax) return parseList(payload, context);
    const read: unknown[] = [];
    for (const indexed of given.entries()) {
      const item = checkEntry(element, indexed, payload, context);
      if (!item) return payload;
      read.push(item.value);
    }
    payload.value = read;
    return payload;
  };
});

/** A list of at most `itemsMax` items of one schema. */
export const boundedList = <Item extends z.ZodType>(item: Item, itemsMax: number) =>
  (new BoundedList({ type: 'array', element: item, itemsMax }) as unknown as z.ZodArray<Item>).max(itemsMax);
