/**
 * Makes a bundle acceptable to `ses`, whose Compartment refuses source by regular expression: it looks for HTML comments,
 * `import(` and `eval(` without telling code from text. Where they stand in strings, regular expressions or comments they
 * are harmless and are respelt with escapes that mean the same; where they stand in code they are refused by line.
 */
import { parse, type Token } from 'acorn';

/** What ses refuses; kept in step with its `src/transforms.js` by a test that evaluates the results. */
const HTML_COMMENT = /<!--|-->/g;
const IMPORT_CALL = /\bimport(?=\s*(?:\(|\/[/*]))/g;
const EVAL_CALL = /\beval(?=\s*\()/g;
const ANY = /<!--|-->|(?<!\.)\bimport\s*(?:\(|\/[/*])|(?<!\.)\beval\s*\(/;

interface Span {
  readonly start: number;
  readonly end: number;
}

/** Where in a bundle something stands. Lines count from 1, columns from 0, as in source maps. */
interface BundlePosition {
  readonly line: number;
  readonly column: number;
  /** What stands there. */
  readonly found: string;
}

/**
 * Respells what is harmless.
 *
 * @param source JavaScript without template literals (esbuild lowers them), since their raw text cannot be respelt
 * @returns the same program, and where the first thing stands that ses would still refuse; null when there is none
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

/** Each escape is valid in strings and in regular expressions with any flag, and leaves look-behinds and groups whole. */
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
