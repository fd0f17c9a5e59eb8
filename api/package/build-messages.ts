/** Says what esbuild found in the words of a package: its output format and namespaces mean nothing to an author. */

const AWAIT = 'await is not allowed outside a function: registration ends with the first turn. Use it in a handler';
const REWORDED: readonly (readonly [RegExp, string])[] = [
  [/^Top-level await .*$/, AWAIT],
  [
    /^(?:"await" can only be used inside|Cannot use "await" outside) .*$/,
    'await is only allowed inside an async function',
  ],
  [/^No matching export in "[^":]*:([^"]+)" for import "default"$/, '“$1” has no default export'],
  [/^No matching export in "[^":]*:([^"]+)" for import "([^"]+)"$/, '“$1” exports nothing with the name “$2”'],
  [/^Multiple exports with the same name "([^"]+)"$/, '“$1” is exported twice'],
  [/^The symbol "([^"]+)" has already been declared$/, '“$1” is declared twice'],
  // From the parser that looks for forbidden syntax.
  [/^Identifier '(.+)' has already been declared$/, '“$1” is declared twice'],
  [/^Expected (.+) but found end of file$/, 'The code ends too early: $1 is missing'],
  [/^Unexpected end of file$/, 'The code ends too early'],
  [/^Expected (.+) but found (.+)$/s, 'Syntax error: $2 stands where $1 is expected'],
  [/^Unexpected (.+)$/, 'Syntax error: $1 is not allowed here'],
  [/^Syntax error (.+)$/, 'Syntax error at $1'],
  [/^Unterminated (.+)$/, 'Syntax error: the $1 has no end'],
  [/^(?:Transforming )?(.+?) (?:to|in) the configured target environment .*$/s, 'This syntax is not supported: $1'],
  [/^(.+?) is currently not supported with the "iife" output format$/, 'This syntax is not supported: $1'],
];

/** Rewords one message of esbuild. Others are about the code alone, and stay. */
export function rewordBuildMessage(text: string): string {
  const plain = text.replace(/:$/, '');
  const [pattern, words] = REWORDED.find(([candidate]) => candidate.test(plain)) ?? [];
  const reworded = pattern === undefined || words === undefined ? plain : plain.replace(pattern, words);
  return reworded.replace(/"([^"]*)"/g, '“$1”').replace(/\bidentifier\b/, 'a name');
}
