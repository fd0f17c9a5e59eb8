/** Lists of untrusted data. */
import { z } from 'zod';
/** A list of at most `itemsMax` items of one schema. */
export declare const boundedList: <Item extends z.ZodType>(item: Item, itemsMax: number) => z.ZodArray<Item>;
