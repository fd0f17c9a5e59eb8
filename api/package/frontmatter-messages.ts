/** Says what is wrong with frontmatter in the words of a package, in place of those of the YAML parser and the schema library. */
import type { ErrorCode, YAMLError } from 'yaml';
import type { z } from 'zod';

export const yamlFaults = {
  ALIAS_PROPS: 'References (*name) are not allowed',
  BAD_ALIAS: 'References (*name) are not allowed; put text that starts with * into quotes',
  BAD_COLLECTION_TYPE: 'The tag does not fit the value; leave it out',
  BAD_DIRECTIVE: 'Directives (%…) are not allowed; put text that starts with % into quotes',
  BAD_DQ_ESCAPE: 'The text has an unknown escape; write \\\\ for a backslash, or use single quotes',
  BAD_INDENT: 'The line is indented wrongly; fields of one level start in the same column',
  BAD_PROP_ORDER: 'Tag and anchor must stand before the value; leave them out',
  BAD_SCALAR_START: 'The text starts with a character that YAML reserves; put it into quotes',
  BLOCK_AS_IMPLICIT_KEY: 'A value with a colon must be in quotes, or on lines of its own',
  BLOCK_IN_FLOW: 'Inside [ ] and { }, write lists and fields with commas, not on lines of their own',
  DUPLICATE_KEY: 'The field is set twice',
  IMPOSSIBLE: 'The line is not valid YAML',
  KEY_OVER_1024_CHARS: 'The name of a field is too long',
  MISSING_CHAR: 'Something is missing here: a colon, a comma, a quote or a closing bracket',
  MULTILINE_IMPLICIT_KEY: 'The name of a field must be on one line; a colon or a quote may be missing',
  MULTIPLE_ANCHORS: 'A value has two anchors (&name); leave them out',
  MULTIPLE_DOCS: 'The frontmatter must be one document; leave out lines with … or ---',
  MULTIPLE_TAGS: 'A value has two tags (!name); leave them out',
  NON_STRING_KEY: 'The name of a field must be text; put it into quotes',
  RESOURCE_EXHAUSTION: 'The frontmatter is nested too deeply',
  TAB_AS_INDENT: 'The line is indented with a tab; use spaces',
  TAG_RESOLVE_FAILED: 'Tags (!name) are not allowed; leave the tag out',
  UNEXPECTED_TOKEN: 'The line is not valid YAML here; put text with special characters into quotes',
} as const satisfies Readonly<Record<ErrorCode, string>>;

export const FOREIGN_TAG = 'Tags (!name) are not allowed; leave the tag out.';

/** The parser has no code of its own for directives without the --- that would end them. */
export const describeYamlFault = ({ code, message }: YAMLError): string =>
  yamlFaults[message.includes('directives-end') ? 'BAD_DIRECTIVE' : code];

/** Texts for types, by the names of the schema library. */
const types: Readonly<Record<string, string>> = {
  string: 'text; put it in quotes',
  boolean: 'true or false',
  array: 'a list, such as [a, b]',
  object: 'fields with values, such as name: Weather',
  record: 'fields with values, such as { unit: { label: Unit } }',
};

/** For issues whose schema says nothing itself. Undefined: the library's message. */
export function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is required' : `must be ${types[issue.expected] ?? issue.expected}`;
    case 'too_small':
      return issue.origin === 'string' && issue.minimum === 1
        ? 'must not be empty'
        : `must have at least ${issue.minimum} ${countOf(issue.origin)}`;
    case 'too_big':
      return `must have at most ${issue.maximum} ${countOf(issue.origin)}`;
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`;
    default:
      return undefined;
  }
}

const countOf = (origin: string): string => (origin === 'string' ? 'characters' : 'entries');
