/** Corrects the columns of a source map after replacements in the generated text. Replacements must not contain line breaks. */
import { LineIndex } from './line-index.ts';
import type { Edit } from './ses-source.ts';

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
/** The bit of a base64 VLQ digit that says that more digits follow. */
const MORE = 32;

/**
 * @param sourceMap of `source`, as JSON
 * @param edits in the order of the text
 * @returns the map of the edited text
 */
export function moveColumns(sourceMap: string, source: string, edits: readonly Edit[]): string {
  if (edits.length === 0) return sourceMap;
  const index = new LineIndex(source);
  const byLine = new Map<number, { column: number; growth: number }[]>();
  for (const { start, found, replacement } of edits) {
    const { line, column } = index.locate(start);
    const inLine = byLine.get(line) ?? [];
    inLine.push({ column, growth: replacement.length - found.length });
    byLine.set(line, inLine);
  }
  const map = JSON.parse(sourceMap) as { mappings: string };
  const lines = map.mappings.split(';');
  for (const [line, inLine] of byLine) lines[line - 1] = moveLine(lines[line - 1] ?? '', inLine);
  return JSON.stringify({ ...map, mappings: lines.join(';') });
}

/** The first number of a segment is its column in the generated text, relative to that of the segment before it. */
function moveLine(line: string, edits: readonly { column: number; growth: number }[]): string {
  if (line === '') return line;
  let column = 0;
  let next = 0;
  return line
    .split(',')
    .map((segment) => {
      const { value, length } = decode(segment);
      column += value;
      let moved = value;
      for (let edit = edits[next]; edit !== undefined && edit.column < column; edit = edits[next]) {
        moved += edit.growth;
        next += 1;
      }
      return moved === value ? segment : encode(moved) + segment.slice(length);
    })
    .join(',');
}

/** Decodes the first number of a segment. */
function decode(segment: string): { value: number; length: number } {
  let bits = 0;
  let length = 0;
  let digit: number;
  do {
    digit = DIGITS.indexOf(segment.charAt(length));
    bits |= (digit & (MORE - 1)) << (5 * length);
    length += 1;
  } while (digit & MORE && length < segment.length);
  return { value: bits & 1 ? -(bits >>> 1) : bits >>> 1, length };
}

function encode(value: number): string {
  let bits = value < 0 ? (-value << 1) | 1 : value << 1;
  let text = '';
  do {
    const digit = bits & (MORE - 1);
    bits >>>= 5;
    text += DIGITS.charAt(bits > 0 ? digit | MORE : digit);
  } while (bits > 0);
  return text;
}
