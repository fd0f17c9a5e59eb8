/** Characters of a text that stands for a thing in labels and messages. A screen reader reads all of them before the next control. */
const CHARS_MAX = 80;

/** Shortens a text to the beginning of its first line, for the label of a button or a message. */
export function shortenText(text: string): string {
  const [line = ''] = text.trim().split('\n', 1);
  const start = [...line].slice(0, CHARS_MAX).join('').trimEnd();
  return start === text.trim() ? start : `${start}…`;
}
