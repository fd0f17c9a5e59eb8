/** Writes JSDoc blocks and indents generated TypeScript. */

const WIDTH = 110;

/** A JSDoc block of the given lines; empty strings become blank lines between paragraphs. */
export function docComment(...lines: readonly string[]): string[] {
  const wrapped = lines.flatMap(wrap);
  const [first] = wrapped;
  if (wrapped.length === 1 && first !== undefined) return [`/** ${first} */`];
  return ['/**', ...wrapped.map((line) => (line === '' ? ' *' : ` * ${line}`)), ' */'];
}

/** Lines moved one level to the right; blank ones stay blank. */
export function indent(lines: readonly string[]): string[] {
  return lines.flatMap((line) => line.split('\n')).map((line) => (line === '' ? '' : `  ${line}`));
}

/** An interface with a doc comment and ready-made member lines. */
export function interfaceOf(doc: readonly string[], head: string, members: readonly string[]): string[] {
  return [...docComment(...doc), `interface ${head} {`, ...indent(members), '}'];
}

function wrap(text: string): string[] {
  const lines: string[] = [];
  let line = '';
  // A number stays with its unit: `5 s`.
  for (const word of text.split(/ (?!s\b)/)) {
    if (line !== '' && line.length + word.length + 1 > WIDTH) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}
