/**
 * Escapes a bundle for `ses`, whose Compartment rejects source by regular expression: HTML comments, `import(` and
 * `eval(`, even inside strings. In strings, regular expressions and comments they are harmless and get escapes with the
 * same meaning; in code they are rejected with their line.
 */
import { parse, type Token } from 'acorn';

/** The patterns that ses rejects. A test that evaluates the results keeps them equal to its `src/transforms.js`. */
const HTML_COMMENT = /<!--|-->/g;
const IMPORT_CALL = /\bimport(?=\s*(?:\(|\/[/*]))/g;
const EVAL_CALL = /\beval(?=\s*\()/g;
const ANY = /<!--|-->|(?<!\.)\bimport\s*(?:\(|\/[/*])|(?<!\.)\beval\s*\(/;

interface Span {
  readonly start: number;
  readonly end: number;
}

/** A position in a bundle. Lines count from 1, columns from 0, as in source maps. */
interface BundlePosition {
  readonly line: number;
  readonly column: number;
  /** The text at this position. */
  readonly found: string;
}

/**
 * Escapes harmless occurrences.
 *
 * @param source JavaScript without template literals (esbuild lowers them), whose raw text cannot be escaped
 * @returns the equivalent program, and the first position that ses would still reject; null: none
 */
export function escapeForSes(source: string): { source: string; refused: BundlePosition | null } {
  if (!ANY.test(source)) return { source, refused: null };
  const pieces: string[] = [];
  let done = 0;
  for (const { start, end } of textSpans(source)) {
    pieces.push(source.slice(done, start), respell(source.slice(start, end)));
    done = end;
  }
  pieces.push(source.slice(done));
  const respelt = pieces.join('');
  return { source: respelt, refused: findRefused(respelt) };
}

function textSpans(source: string): Span[] {
  const spans: Span[] = [];
  const onToken = (token: Token) => {
    if (token.type.label === 'string' || token.type.label === 'regexp') spans.push(token);
  };
  const onComment = (_isBlock: boolean, _text: string, start: number, end: number) => void spans.push({ start, end });
  parse(source, { ecmaVersion: 'latest', sourceType: 'script', onToken, onComment });
  return spans.sort((a, b) => a.start - b.start);
}

/**
 * Each escape is valid in strings and in regular expressions with any flag, and does not change look-behinds and
 * groups.
 */
function respell(text: string): string {
  return text
    .replace(HTML_COMMENT, (found) => (found === '-->' ? '--\\x3e' : '<!-\\x2d'))
    .replace(IMPORT_CALL, 'impor\\x74')
    .replace(EVAL_CALL, 'eva\\x6c');
}

function findRefused(source: string): BundlePosition | null {
  const match = ANY.exec(source);
  if (!match) return null;
  const before = source.slice(0, match.index).split('\n');
  const column = before.at(-1)?.length ?? 0;
  return { line: before.length, column, found: match[0].replace(/\s+/g, '') };
}
