/**
 * Respells a bundle for `ses`, whose Compartment rejects source by regular expression: HTML comments, `import(` and `eval(`,
 * in strings and method names, too. The respelt text has the same meaning, and the same line for everything.
 */
import { parse, type Token } from 'acorn';

/** The patterns that ses rejects. A test that evaluates the results keeps them equal to its `src/transforms.js`. */
const REJECTED = /<!--|-->|\bimport(?=\s*(?:\(|\/[/*]))|\beval(?=\s*\()/g;
/** Escapes that are valid in strings and in regular expressions with any flag, and that change no look-behind and no group. */
const IN_TEXT: Readonly<Record<string, string>> = {
  '<!--': '<!-\\x2d',
  '-->': '--\\x3e',
  import: 'impor\\x74',
  eval: 'eva\\x6c',
};
/** Escapes that are valid in the names of methods and variables. */
const IN_NAME: Readonly<Record<string, string>> = { import: 'impor\\u0074', eval: 'eva\\u006c' };

/** A replacement in one line of a text. */
export interface Edit {
  /** Offset in the text. */
  readonly start: number;
  readonly found: string;
  readonly replacement: string;
}
interface Span {
  readonly start: number;
  readonly end: number;
  readonly kind: 'text' | 'name';
}

/**
 * @param source JavaScript without template literals (esbuild lowers them), whose raw text cannot be escaped, and without
 *   calls of `import()` and direct `eval`
 * @returns in the order of the text
 */
export function findSesEdits(source: string): Edit[] {
  const found = [...source.matchAll(REJECTED)];
  if (found.length === 0) return [];
  const spans = findSpans(source);
  let next = 0;
  return found.flatMap(({ 0: text, index }) => {
    while ((spans[next]?.end ?? Number.POSITIVE_INFINITY) <= index) next += 1;
    const span = spans[next];
    if (!span || span.start > index) return [];
    const replacement = (span.kind === 'name' ? IN_NAME : IN_TEXT)[text];
    return replacement === undefined ? [] : [{ start: index, found: text, replacement }];
  });
}

export function applyEdits(source: string, edits: readonly Edit[]): string {
  const pieces: string[] = [];
  let done = 0;
  for (const { start, found, replacement } of edits) {
    pieces.push(source.slice(done, start), replacement);
    done = start + found.length;
  }
  pieces.push(source.slice(done));
  return pieces.join('');
}

function findSpans(source: string): Span[] {
  const spans: Span[] = [];
  const onToken = ({ type: { label, keyword }, start, end }: Token) => {
    if (label === 'string' || label === 'regexp') spans.push({ start, end, kind: 'text' });
    else if (label === 'name' || label === 'privateId' || keyword !== undefined)
      spans.push({ start, end, kind: 'name' });
  };
  const onComment = (_isBlock: boolean, _text: string, start: number, end: number) =>
    void spans.push({ start, end, kind: 'text' });
  parse(source, { ecmaVersion: 'latest', sourceType: 'script', onToken, onComment });
  return spans.sort((a, b) => a.start - b.start);
}
