/** Prints JSDoc blocks and interfaces of generated TypeScript. */

const WIDTH = 110;

/** Prints a JSDoc block. An empty string is a blank line between paragraphs. */
export function printDocComment(...lines: readonly string[]): string[] {
  const wrapped = lines.flatMap(wrapText);
  const [first] = wrapped;
  if (wrapped.length === 1 && first !== undefined) return [`/** ${first} */`];
  return ['/**', ...wrapped.map((line) => (line === '' ? ' *' : ` * ${line}`)), ' */'];
}

/** The member that every context of a handler has. */
export const SIGNAL = [...printDocComment('Aborts at the deadline.'), 'signal: AbortSignal;'];

/** Indents lines by one level. */
export function indent(lines: readonly string[]): string[] {
  return lines.flatMap((line) => line.split('\n')).map((line) => (line === '' ? '' : `  ${line}`));
}

/** Prints an interface with a doc comment from printed members. */
export function printInterface(doc: readonly string[], head: string, members: readonly string[]): string[] {
  return [...printDocComment(...doc), `interface ${head} {`, ...indent(members), '}'];
}

function wrapText(text: string): string[] {
  const lines: string[] = [];
  let line = '';
  // Never breaks between a number and its unit: `5 s`.
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
