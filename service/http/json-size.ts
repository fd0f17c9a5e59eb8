/** Measures JSON text before it is parsed: parsing, checking and copying take time per value, not per byte. */
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';

/** Deeper JSON overflows the stack of recursive code. */
const DEPTH_MAX = 100;
/** Values that JSON may hold per byte that its route accepts: 20,000 per MiB, which parse in about 10 ms. */
const VALUES_PER_BYTE = 20_000 / MIB;

const [QUOTE = 0, BACKSLASH, COMMA, OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = Buffer.from('"\\,[]{}');

/**
 * Refuses JSON text that takes too long to parse and check. Text that is not JSON is left to the parser.
 *
 * @param maxBytes what the route accepts; decides how many values the text may hold
 * @throws Problem `bad_request` for too many levels, `too_large` for too many values
 */
export function refuseCostlyJson(text: Uint8Array, maxBytes: number): void {
  const valuesMax = Math.ceil(maxBytes * VALUES_PER_BYTE);
  let values = 1;
  let depth = 0;
  for (let at = 0; at < text.byteLength; at += 1) {
    const byte = text[at];
    if (byte === QUOTE) at = findStringEnd(text, at + 1);
    else if (byte === COMMA) values += 1;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      values += 1;
      depth += 1;
      if (depth > DEPTH_MAX) throw tooDeep();
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
    if (values > valuesMax) throw tooMany(valuesMax);
  }
}

/** Bytes of a string that are looked at one by one before the rest is searched, which costs 50 ns to begin with. */
const SHORT_BYTES = 64;

/** Returns the index of the quote that ends a string; the text's length if none does. */
function findStringEnd(text: Uint8Array, start: number): number {
  let at = start;
  while (at < text.byteLength) {
    const shortEnd = at + SHORT_BYTES;
    while (at < shortEnd) {
      const byte = text[at];
      if (byte === QUOTE || byte === undefined) return at;
      at += byte === BACKSLASH ? 2 : 1;
    }
    const quote = text.indexOf(QUOTE, at);
    if (quote < 0) break;
    let backslashes = quote;
    while (backslashes > at && text[backslashes - 1] === BACKSLASH) backslashes -= 1;
    if ((quote - backslashes) % 2 === 0) return quote;
    at = quote + 1;
  }
  return text.byteLength;
}

const tooDeep = () => new Problem('bad_request', `The body nests deeper than ${DEPTH_MAX} levels. Send flatter JSON.`);
const tooMany = (max: number) =>
  new Problem('too_large', `The body holds more than ${max} values. Send fewer, in several requests.`);
