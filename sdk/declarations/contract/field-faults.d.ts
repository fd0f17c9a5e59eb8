/** Says what is wrong with a field and what it must be, in place of the schema library's words. */
import type { z } from 'zod';
type Issue = z.core.$ZodRawIssue;
/** As `schema.nullable()`, and the faults say that null is allowed: those of the library's are of `schema` alone. */
export declare function allowNull<Schema extends z.ZodType>(schema: Schema): z.ZodNullable<Schema>;
/** For issues whose schema says nothing itself. Undefined: the library's message. */
export declare function describeFieldFault(issue: Issue): string | undefined;
/** The first fault of a value, behind the place of the field. */
export declare function locateFault({ issues: [issue] }: z.ZodError): string;
/** The fault of a value of another type. */
export declare const refuse: (input: unknown, wanted: string) => string;
export {};
