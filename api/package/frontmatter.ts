/** Reads YAML frontmatter of Markdown files, with limits. Errors name the line. */
import { type Document, isAlias, isCollection, isMap, isNode, isScalar, LineCounter, parseDocument, visit } from 'yaml';
import type { z } from 'zod';
import type { ProblemLocation } from '../../sdk/contract/errors.ts';
import { KIB } from '../../sdk/contract/limits.ts';
import { ONE_LINE } from '../../sdk/contract/manifest.ts';
import { findNearName } from '../../service/text/near-name.ts';
import { describeIssue, describeYamlFault, FOREIGN_TAG } from './frontmatter-messages.ts';
import { invalidAll, invalidAt } from './invalid-package.ts';

/** Checked before parsing, because the cost of YAML grows faster than its length. Bytes. */
export const FRONTMATTER_MAX_BYTES = 16 * KIB;
/** Deeper than any valid frontmatter; protects the stack against recursion. */
const NESTING_MAX = 32;
/** The tags of what plain YAML says without them. */
const PLAIN_TAG = /^(!|tag:yaml\.org,2002:(str|int|float|bool|null|map|seq))$/;

interface MarkdownFile {
  readonly path: string;
  readonly text: string;
}
interface Parts {
  /** Null: the file has no frontmatter. */
  readonly yaml: string | null;
  readonly body: string;
}

/**
 * @param schema of the frontmatter
 * @param presence `optional`: a file without frontmatter counts as one with empty frontmatter
 * @returns the checked data and the text below
 * @throws Problem `invalid_package` with the line of each error
 */
export function readFrontmatter<Schema extends z.ZodType>(
  file: MarkdownFile,
  schema: Schema,
  presence: 'required' | 'optional' = 'required',
): { data: z.output<Schema>; body: string } {
  const { yaml, body } = splitFrontmatter(file);
  if (yaml === null && presence === 'required') {
    throw invalidAt({
      path: file.path,
      line: 1,
      message: 'must start with a line ---, then name: … and description: …, then a line ---.',
    });
  }
  const lines = new LineCounter();
  const document = parseYaml(file.path, yaml ?? '', lines);
  const checked = schema.safeParse(document.toJS({ maxAliasCount: 0 }) ?? {}, { error: describeIssue });
  if (checked.success) return { data: checked.data, body };
  const issues = dropFollowing(checked.error.issues);
  throw invalidAll(issues.flatMap((issue) => locateIssue(file.path, issue, document, lines)));
}

/** Drops what the schema says about the size of a value of the wrong type: it counts the characters of a text as entries. */
function dropFollowing(issues: readonly z.core.$ZodIssue[]): readonly z.core.$ZodIssue[] {
  const isOfWrongType = new Set(issues.filter(({ code }) => code === 'invalid_type').map(({ path }) => path.join('.')));
  return issues.filter(({ code, path }) => code === 'invalid_type' || !isOfWrongType.has(path.join('.')));
}

function splitFrontmatter({ path, text }: MarkdownFile): Parts {
  const plain = text.startsWith('\uFEFF') ? text.slice(1) : text;
  if (!/^---[ \t]*\r?\n/.test(plain)) return { yaml: null, body: plain };
  const start = plain.indexOf('\n') + 1;
  const end = /^---[ \t]*(?:\r?\n|$)/m.exec(plain.slice(start));
  if (!end) throw invalidAt({ path, line: 1, message: 'The frontmatter has no closing line ---.' });
  const yaml = plain.slice(start, start + end.index);
  if (Buffer.byteLength(yaml) > FRONTMATTER_MAX_BYTES) {
    throw invalidAt({ path, line: 1, message: `The frontmatter is larger than ${FRONTMATTER_MAX_BYTES} bytes.` });
  }
  return { yaml, body: plain.slice(start + end.index + end[0].length) };
}

function parseYaml(path: string, yaml: string, lines: LineCounter): Document.Parsed {
  let document: Document.Parsed;
  try {
    // `uniqueKeys` would compare every pair of keys; `findTreeFaults` finds duplicates in one pass.
    document = parseDocument(yaml, {
      version: '1.2',
      schema: 'core',
      stringKeys: true,
      uniqueKeys: false,
      prettyErrors: false,
      lineCounter: lines,
    });
  } catch {
    // Nesting can exhaust the parser's stack before there is a tree to measure.
    throw invalidAt({ path, line: 2, message: 'The frontmatter is nested too deeply.' });
  }
  const faults: ProblemLocation[] = [...document.errors, ...document.warnings].map((fault) => ({
    ...locate(path, lines, fault.pos[0]),
    message: `${describeYamlFault(fault)}.`,
  }));
  if (faults.length === 0) faults.push(...findTreeFaults(path, document, lines));
  if (faults.length > 0) throw invalidAll(faults);
  return document;
}

function findTreeFaults(path: string, document: Document.Parsed, lines: LineCounter): ProblemLocation[] {
  const faults: ProblemLocation[] = [];
  const add = (node: unknown, message: string) => {
    const offset = isNode(node) ? (node.range?.[0] ?? 0) : 0;
    faults.push({ ...locate(path, lines, offset), message });
  };
  visit(document, (_key, node, ancestors) => {
    if (isAlias(node)) add(node, 'References (*name) are not allowed.');
    // Sets, ordered maps and bytes would pass some schemas as objects without fields.
    else if (isNode(node) && node.tag !== undefined && !PLAIN_TAG.test(node.tag)) add(node, FOREIGN_TAG);
    if (isMap(node)) {
      const keys = node.items.map((item) => item.key);
      for (const key of findDuplicates(keys)) add(key, 'The field is set twice.');
      // Checked here, because a plain object would lose this key before the schema sees it.
      for (const key of keys)
        if (isScalar(key) && key.value === '__proto__') add(key, '“__proto__” is not a valid name.');
    }
    if (ancestors.length <= NESTING_MAX || !isCollection(node)) return undefined;
    add(node, 'The frontmatter is nested too deeply.');
    return visit.BREAK;
  });
  return faults;
}

function findDuplicates(keys: readonly unknown[]): unknown[] {
  const seen = new Set<unknown>();
  return keys.filter((key) => {
    const name = isScalar(key) ? key.value : key;
    if (seen.has(name)) return true;
    seen.add(name);
    return false;
  });
}

/** A block that was meant as one line holds a line break which its author does not see. */
const BLOCK_HINT = ': a block after > or | ends with a line break, and one after >- does not';
const isBlock = (node: unknown): boolean => isScalar(node) && /^BLOCK_/.test(node.type ?? '');

function locateIssue(
  path: string,
  issue: z.core.$ZodIssue,
  document: Document.Parsed,
  lines: LineCounter,
): ProblemLocation[] {
  if (issue.code !== 'unrecognized_keys') {
    const message = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
    const hint = message === ONE_LINE && isBlock(document.getIn(issue.path, true)) ? BLOCK_HINT : '';
    const place = locate(path, lines, findOffset(document, issue.path));
    return [{ ...place, field: issue.path.join('.'), message: `${message}${hint}` }];
  }
  return issue.keys.map((key) => {
    const at = [...issue.path, key];
    const known = listKnownFields(issue.path);
    const near = findNearName(key, known);
    const hint = near === null ? '' : `; did you mean “${near}”?`;
    return { ...locate(path, lines, findOffset(document, at)), field: at.join('.'), message: `is not known${hint}` };
  });
}

/** The known fields at a path: at the top, or in an entry of settings and secrets. */
function listKnownFields(path: readonly PropertyKey[]): string[] {
  if (path.length === 0) return ['name', 'description', 'capabilities', 'settings', 'secrets'];
  return path[0] === 'settings'
    ? ['label', 'description', 'default', 'enum', 'required']
    : ['label', 'description', 'required', 'use'];
}

/** The position of a path's node; if missing, of its nearest ancestor. */
function findOffset(document: Document.Parsed, path: readonly PropertyKey[]): number {
  for (let length = path.length; length > 0; length -= 1) {
    const parent = length === 1 ? document.contents : document.getIn(path.slice(0, length - 1), true);
    const last = path[length - 1];
    const pair = isMap(parent) ? parent.items.find((item) => isScalar(item.key) && item.key.value === last) : undefined;
    const node = pair?.key ?? document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return 0;
}

/** The YAML starts on the second line of the file. */
function locate(path: string, lines: LineCounter, offset: number): Omit<ProblemLocation, 'message'> {
  const { line, col } = lines.linePos(offset);
  return { path, line: Math.max(1, line) + 1, column: Math.max(1, col) };
}
