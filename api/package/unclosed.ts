/** Finds the bracket, template or comment that a file opens and never closes. */
import { tokenizer, tokTypes } from 'acorn';

interface Opened {
  /** Such as `{`. */
  readonly text: string;
  /** From 1. */
  readonly line: number;
  readonly column: number;
}

const CLOSING: ReadonlyMap<unknown, string> = new Map([
  [tokTypes.parenR, '('],
  [tokTypes.bracketR, '['],
  [tokTypes.braceR, '{'],
]);
const OPENING: ReadonlyMap<unknown, string> = new Map([
  [tokTypes.parenL, '('],
  [tokTypes.bracketL, '['],
  [tokTypes.braceL, '{'],
  [tokTypes.dollarBraceL, '${'],
]);

/**
 * Returns the innermost one that is open at the end of the code. Null: none, or the code cannot be read as tokens of JavaScript,
 * as some of TypeScript cannot.
 */
export function findUnclosed(code: string): Opened | null {
  const open: Opened[] = [];
  try {
    for (const { type, loc } of tokenizer(code, { ecmaVersion: 'latest', sourceType: 'module', locations: true })) {
      const isOpenTemplate = type === tokTypes.backQuote && open.at(-1)?.text !== '`';
      const text = isOpenTemplate ? '`' : OPENING.get(type);
      if (text !== undefined && loc) open.push({ text, line: loc.start.line, column: loc.start.column + 1 });
      else if (type === tokTypes.backQuote) open.pop();
      else if (CLOSING.has(type) && !open.pop()?.text.endsWith(CLOSING.get(type) ?? '')) return null;
    }
  } catch (error) {
    if (!(error instanceof SyntaxError) || !('loc' in error)) throw error;
    const { line, column } = error.loc as { line: number; column: number };
    if (error.message.startsWith('Unterminated comment')) return { text: '/*', line, column: column + 1 };
    if (!error.message.startsWith('Unterminated template')) return null;
  }
  return open.at(-1) ?? null;
}
