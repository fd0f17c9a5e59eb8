/** Maximum length of a Telegram message. UTF-16 units. */
const PART_MAX = 4096;

/** Splits a text at line breaks, else at spaces, else within a word, but never within a character. */
export function inParts(text: string, max = PART_MAX): string[] {
  const parts: string[] = [];
  let rest = text.trim();
  while (rest.length > max) {
    const head = rest.slice(0, max + 1);
    const gap = Math.max(head.lastIndexOf('\n'), 0) || Math.max(head.lastIndexOf(' '), 0);
    const cut = gap || (/[\uD800-\uDBFF]/.test(rest.charAt(max - 1)) ? max - 1 : max);
    parts.push(rest.slice(0, cut).trimEnd());
    rest = rest.slice(cut).trimStart();
  }
  return rest === '' ? parts : [...parts, rest];
}
