/** Says what is wrong with a field and what it must be, in place of the schema library's words. */
import type { z } from 'zod';

type Issue = z.core.$ZodRawIssue;

/** Texts for the type that a value must have, by the names of the schema library. */
const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  tuple: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
  undefined: 'left out',
  Uint8Array: 'bytes',
};

const FORMATS: Readonly<Record<string, string>> = {
  datetime: 'a time in ISO 8601 with an offset, such as 2026-01-05T09:00:00Z',
  date: 'a date, such as 2026-01-05',
  url: 'an absolute address, such as https://example.com/',
};

/** What `allowNull` made. */
const nullables = new WeakSet<object>();

/** As `schema.nullable()`, and the faults say that null is allowed: those of the library's are of `schema` alone. */
export function allowNull<Schema extends z.ZodType>(schema: Schema): z.ZodNullable<Schema> {
  const own = schema.clone();
  nullables.add(own);
  return own.nullable();
}

/** For issues whose schema says nothing itself. Undefined: the library's message. */
export function describeFieldFault(issue: Issue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return refuse(
        issue.input,
        `${TYPES[issue.expected] ?? issue.expected}${issue.inst && nullables.has(issue.inst) ? ' or null' : ''}`,
      );
    case 'invalid_value':
      return refuseMissing(
        issue.input,
        `must be ${issue.values.length > 1 ? 'one of ' : ''}${listValues(issue.values)}`,
      );
    case 'invalid_union':
      return refuseMissing(issue.input, describeUnion(issue));
    case 'invalid_format':
      return `must be ${FORMATS[issue.format] ?? `text of the form ${issue.format}`}`;
    case 'too_small':
      if (issue.minimum === 1 && COUNTED[issue.origin]) return 'must not be empty';
      return `must ${describeBound(issue.origin, 'at least', issue.minimum, issue.inclusive)}`;
    case 'too_big':
      return `must ${describeBound(issue.origin, 'at most', issue.maximum, issue.inclusive)}`;
    case 'unrecognized_keys':
      return `must not have ${listValues(issue.keys)}`;
    case 'invalid_key':
      return `has a name that is not allowed: ${issue.issues[0]?.message ?? 'it is not valid'}`;
    default:
      return undefined;
  }
}

/** The first fault of a value, behind the place of the field. */
export function locateFault({ issues: [issue] }: z.ZodError): string {
  if (issue === undefined) return 'is not valid';
  return issue.path.length === 0 ? issue.message : `${issue.path.join('.')}: ${issue.message}`;
}

/** The fault of a value of another type. */
export const refuse = (input: unknown, wanted: string): string =>
  input === undefined ? `is required and must be ${wanted}` : `must be ${wanted}, not ${nameType(input)}`;

const refuseMissing = (input: unknown, wanted: string): string =>
  input === undefined ? `is required and ${wanted}` : wanted;

function nameType(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (value instanceof Uint8Array) return 'bytes';
  if (Number.isNaN(value)) return 'NaN';
  // A whole number is refused as too large, and others where it must be whole.
  if (typeof value === 'number') return Number.isInteger(value) ? 'a number' : String(value);
  return TYPES[typeof value] ?? `a ${typeof value}`;
}

const listValues = (values: readonly unknown[]): string =>
  values.map((value) => (typeof value === 'string' ? `“${value}”` : String(value))).join(', ');

/** The unit in which a value of each kind is counted. Numbers are compared. */
const COUNTED: Readonly<Record<string, string>> = {
  string: 'characters',
  array: 'entries',
  record: 'entries',
  map: 'entries',
  set: 'entries',
};

function describeBound(origin: string, relation: string, bound: number | bigint, isInclusive = true): string {
  const counted = COUNTED[origin];
  if (counted) return `have ${relation} ${bound} ${counted}`;
  if (isInclusive) return `be ${relation} ${bound}`;
  return `be ${relation === 'at least' ? 'greater' : 'less'} than ${bound}`;
}

type UnionIssue = Extract<Issue, { code: 'invalid_union' }>;
type BranchIssue = UnionIssue['errors'][number][number];

function describeUnion(issue: UnionIssue): string {
  const { discriminator, options } = issue;
  if (discriminator && Array.isArray(options)) return `must be one of ${listValues(options)}`;
  const faults = listBranchFaults(issue.errors);
  const [fitting, ...others] = faults.filter((fault) => !isOfOtherType(fault));
  if (fitting && others.length === 0) return describeWithin(fitting);
  const wanted = new Set(fitting ? [] : faults.flatMap(listTypes));
  return wanted.size > 0
    ? `must be ${[...wanted].join(' or ')}`
    : 'must have one of the forms that the reference lists';
}

const describeWithin = ({ path, message }: BranchIssue): string =>
  path.length === 0 ? message : `${path.join('.')} ${message}`;

/** The first fault in each form, also in those of a union within the union. */
const listBranchFaults = (branches: UnionIssue['errors']): BranchIssue[] =>
  branches.flatMap(([first]) => {
    if (first === undefined) return [];
    return first.code === 'invalid_union' && first.path.length === 0 ? listBranchFaults(first.errors) : [first];
  });

const REFUSED_TYPE = /^must be ([^,]+), not /;

/** Whether the value itself cannot have this form. Otherwise something within it is wrong. */
const isOfOtherType = ({ code, path, message }: BranchIssue): boolean =>
  path.length === 0 &&
  (code === 'invalid_type' || code === 'invalid_value' || (code === 'custom' && REFUSED_TYPE.test(message)));

function listTypes(fault: BranchIssue): string[] {
  if (fault.code === 'invalid_type') return [TYPES[fault.expected] ?? fault.expected];
  return REFUSED_TYPE.exec(fault.message)?.slice(1) ?? [];
}
