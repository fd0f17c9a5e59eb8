/** Records of untrusted data. */
import { z } from 'zod';
/** An object of any names, with at most `entriesMax` values of one schema. */
export declare const boundedRecord: <Value extends z.ZodType>(value: Value, entriesMax: number) => z.ZodRecord<z.ZodString, Value>;
