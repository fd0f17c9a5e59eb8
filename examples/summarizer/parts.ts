/** Characters per model call: some 15,000 tokens, which small models accept, too. */
const PART_CHARS = 60_000;

/** Joins messages to parts. Splits only messages longer than a part, and omits none. */
export function inParts(messages: readonly string[], max = PART_CHARS): string[] {
  const parts: string[] = [];
  let part = '';
  for (const piece of messages.flatMap((message) => cut(message, max))) {
    if (part.length + piece.length > max) {
      parts.push(part);
      part = '';
    }
    part += `${piece}\n`;
  }
  return part === '' ? parts : [...parts, part];
}

const cut = (text: string, max: number): string[] =>
  Array.from({ length: Math.ceil(text.length / max) }, (_, at) => text.slice(at * max, (at + 1) * max).toWellFormed());
