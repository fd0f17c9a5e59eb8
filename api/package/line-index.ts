/** Converts offsets in a text to lines and columns, as source maps count them. */
import { bisect } from '../../service/text/bisect.ts';

export class LineIndex {
  /** Offsets where lines start. */
  readonly #starts: readonly number[];

  constructor(text: string) {
    const starts = [0];
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
    this.#starts = starts;
  }

  /** @returns line from 1, column from 0 */
  locate(offset: number): { line: number; column: number } {
    const line = bisect(this.#starts.length, (index) => (this.#starts[index] ?? 0) > offset);
    return { line, column: offset - (this.#starts[line - 1] ?? 0) };
  }
}
