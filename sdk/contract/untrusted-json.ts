/**
 * Reads untrusted JSON: every body of both ports, and every frame of a child. It is bounded before it is parsed, because
 * parsing, checking and copying take time per value, not per byte. It is refused where parsing would change it.
 */
import { isUtf8 } from 'node:buffer';

/** Recursive code overflows the stack with deeper JSON. */
export const JSON_LEVELS_MAX = 100;
/** A frame may hold the JSON of a body below the fields of a message and of its result. */
export const FRAME_LEVELS_MAX = JSON_LEVELS_MAX + 8;
/** Values per byte that a route accepts: 20,000 per MiB, which parse in about 10 ms. */
const VALUES_PER_BYTE = 20_000 / 1_048_576;
/** Values of any body: those of 4 MiB, and more than a list of 10,000 files has. V8 copies as many between threads in about 20 ms. */
const BODY_VALUES_MAX = 80_000;
/** Values of a frame: those of the longest body, and of the message around it. */
export const FRAME_VALUES_MAX = 100_000;

/** Values that a body of a route may hold. */
export const countValuesMax = (maxBytes: number): number =>
  Math.min(Math.ceil(maxBytes * VALUES_PER_BYTE), BODY_VALUES_MAX);

export interface JsonBounds {
  readonly levelsMax: number;
  readonly valuesMax: number;
}
export const FRAME_BOUNDS: JsonBounds = { levelsMax: FRAME_LEVELS_MAX, valuesMax: FRAME_VALUES_MAX };

export type JsonFault = 'too_deep' | 'too_many_values' | 'not_utf8' | 'not_json' | 'forbidden_name' | 'inexact_number';

/** JSON that is refused. The message is a predicate: “nests deeper than 100 levels”. */
export class JsonError extends Error {
  readonly fault: JsonFault;
  constructor(fault: JsonFault, message: string) {
    super(message);
    this.fault = fault;
  }
}

export interface ReadJson {
  readonly value: unknown;
  /** Whether a text may hold U+0000 or a lone surrogate. Both need an escape: UTF-8 encodes no surrogates, and JSON no raw U+0000. */
  readonly isSuspect: boolean;
}

/** Some editors and shells write it before a text. It is no part of the JSON. */
const BYTE_ORDER_MARK = '\u{feff}';
/** Escapes in JSON text that may stand for U+0000 or a lone surrogate. */
const SUSPECT_ESCAPE = /\\u(?:0000|[dD][89a-fA-F])/;

/**
 * Reads JSON text: bounded, UTF-8, and with numbers that a double can hold.
 *
 * @param bounds null: the text is from a program of ours, so that neither its size nor its numbers are checked
 * @param parse what it throws is `not_json`, but a `JsonError`. Default: `JSON.parse`
 * @throws JsonError
 */
export function readJson(
  bytes: Buffer,
  start: number,
  end: number,
  bounds: JsonBounds | null,
  parse: (text: string) => unknown = JSON.parse,
): ReadJson {
  const inexact = bounds === null ? null : checkCost(bytes, start, end, bounds).inexact;
  const decoded = decodeUtf8(bytes, start, end);
  const text = decoded.startsWith(BYTE_ORDER_MARK) ? decoded.slice(1) : decoded;
  const value = parseWith(parse, text);
  if (inexact !== null) throw createInexactError(inexact);
  return { value, isSuspect: text.includes('\\') && SUSPECT_ESCAPE.test(text) };
}

function parseWith(parse: (text: string) => unknown, text: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    if (error instanceof JsonError) throw error;
    throw new JsonError('not_json', `is not valid JSON${findPlace(error as Error, text)}`);
  }
}

/** Where the parser stopped, if its error says so. The error also quotes the text, which is not repeated. */
function findPlace({ message }: Error, text: string): string {
  const [, line, column] = /\(line (\d+) column (\d+)\)/.exec(message) ?? [];
  return line === undefined ? findForeignValue(text) : `: line ${line}, column ${column}`;
}

/** A string, to its end or that of the text, or a value that Python or JavaScript writes and JSON does not have. */
const STRING_OR_FOREIGN_VALUE = /"(?:[^"\\]|\\[\s\S]?)*(?:"|$)|\b(NaN|Infinity|undefined|None|True|False)\b/g;
/** Longest text that is searched, characters: the expression keeps each step through a string on its stack. */
const SEARCHED_MAX_CHARS = 65_536;

/** `JSON.parse` does not say where it met a name. `json.dumps` of Python writes `NaN` by default. */
function findForeignValue(text: string): string {
  const searched = text.slice(0, SEARCHED_MAX_CHARS);
  for (const { 1: value, index } of searched.matchAll(STRING_OR_FOREIGN_VALUE)) {
    if (value === undefined) continue;
    const lines = searched.slice(0, index).split('\n');
    return `: line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}: ${value} is not a value of JSON`;
  }
  return '';
}

/** U+FFFD, which decoding puts where bytes are not UTF-8. */
const REPLACEMENT = '\u{fffd}';

/** @throws JsonError rather than repair bytes that are not UTF-8 */
export function decodeUtf8(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('utf8', start, end);
  if (text.includes(REPLACEMENT) && !isUtf8(bytes.subarray(start, end)))
    throw new JsonError('not_utf8', 'is not valid JSON: it is not UTF-8');
  return text;
}

const [QUOTE = 0, BACKSLASH, COMMA, DOT, MINUS, PLUS] = Buffer.from('"\\,.-+');
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = Buffer.from('[]{}');
const [ZERO = 0, NINE = 0, LOWER_E, UPPER_E] = Buffer.from('09eE');
/** A whole number of fewer digits is exact in a double. One of as many is, too, unless it begins with 9. */
const INEXACT_DIGITS = 16;
/** An exponent of fewer characters, such as `e99`, makes no number of `INEXACT_DIGITS` digits infinite. */
const INFINITE_EXPONENT_CHARS = 4;

/**
 * Counts levels and values of JSON text. Text that is not JSON is left to the parser.
 *
 * @returns the first number that is another one after parsing, 2^53 + 1 or 1e400, and how many values the text has
 * @throws JsonError `too_deep` or `too_many_values`
 */
export function checkCost(
  bytes: Buffer,
  start: number,
  end: number,
  { levelsMax, valuesMax }: JsonBounds,
): { inexact: string | null; values: number } {
  let values = 1;
  let depth = 0;
  let inexact: string | null = null;
  let converted = 0;
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) at = findStringEnd(bytes, at + 1, end);
    else if (byte === COMMA) values += 1;
    else if (byte >= ZERO && byte <= NINE) {
      const digitsEnd = findDigitsEnd(bytes, at + 1, end);
      const fractionEnd = bytes[digitsEnd] === DOT ? findDigitsEnd(bytes, digitsEnd + 1, end) : digitsEnd;
      const numberEnd = findExponentEnd(bytes, fractionEnd, end);
      // Text with more numbers than values is not JSON.
      if (isLongNumber(bytes, at, digitsEnd, numberEnd - fractionEnd) && inexact === null && converted < values) {
        converted += 1;
        const source = bytes.toString('latin1', bytes[at - 1] === MINUS ? at - 1 : at, numberEnd);
        if (!isExact(Number(source), source)) inexact = source;
      }
      at = numberEnd - 1;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      values += 1;
      depth += 1;
      if (depth > levelsMax) throw new JsonError('too_deep', `nests deeper than ${levelsMax} levels`);
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
    if (values > valuesMax) throw new JsonError('too_many_values', `holds more than ${valuesMax} values`);
  }
  return { inexact, values };
}

function findDigitsEnd(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end && (bytes[at] as number) >= ZERO && (bytes[at] as number) <= NINE) at += 1;
  return at;
}

function findExponentEnd(bytes: Uint8Array, start: number, end: number): number {
  if (bytes[start] !== LOWER_E && bytes[start] !== UPPER_E) return start;
  const sign = bytes[start + 1];
  return findDigitsEnd(bytes, sign === MINUS || sign === PLUS ? start + 2 : start + 1, end);
}

/** Whether a number may be inexact. Others are not converted: a hostile text has a hundred thousand. */
function isLongNumber(bytes: Uint8Array, start: number, digitsEnd: number, exponentChars: number): boolean {
  const digits = digitsEnd - start;
  if (digits < INEXACT_DIGITS) return exponentChars >= INFINITE_EXPONENT_CHARS;
  return digits > INEXACT_DIGITS || bytes[start] === NINE || exponentChars >= INFINITE_EXPONENT_CHARS;
}

/** Bytes of a string that are looked at one by one before the rest is searched, which costs 50 ns to begin with. */
const SHORT_BYTES = 64;

/** Returns the index of the quote that ends a string; `end` if none does. */
function findStringEnd(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end) {
    const shortEnd = at + SHORT_BYTES;
    while (at < shortEnd) {
      const byte = bytes[at];
      if (byte === QUOTE || byte === undefined) return at;
      at += byte === BACKSLASH ? 2 : 1;
    }
    const quote = bytes.indexOf(QUOTE, at);
    if (quote < 0) break;
    let backslashes = quote;
    while (backslashes > at && bytes[backslashes - 1] === BACKSLASH) backslashes -= 1;
    if ((quote - backslashes) % 2 === 0) return quote;
    at = quote + 1;
  }
  return end;
}

/** Bounds for the text of a program that runs as its reader. */
const UNBOUNDED: JsonBounds = { levelsMax: Number.POSITIVE_INFINITY, valuesMax: Number.POSITIVE_INFINITY };

/** @returns the refusal of the first number that is another one after parsing, as `readJson` throws it. Null: parsing changes no number */
export function findInexactNumber(text: string): JsonError | null {
  const bytes = Buffer.from(text);
  const { inexact } = checkCost(bytes, 0, bytes.byteLength, UNBOUNDED);
  return inexact === null ? null : createInexactError(inexact);
}

/** Digits of a number in a refusal. */
const SHOWN_CHARS = 40;

function createInexactError(source: string): JsonError {
  const shown = source.length > SHOWN_CHARS ? `${source.slice(0, SHOWN_CHARS)}…` : source;
  return new JsonError('inexact_number', `holds the number ${shown}, which a double cannot hold`);
}

/** Fractions are rounded to the nearest double, like everywhere. Whole numbers are refused if other digits would be written. */
const isExact = (value: number, source: string): boolean =>
  Number.isFinite(value) && (!/^-?\d+$/.test(source) || writeDigits(value) === source);

/** A whole number without an exponent. */
function writeDigits(value: number): string {
  const [mantissa = '', exponent] = String(value).split('e+');
  if (exponent === undefined) return mantissa;
  const [whole = '', fraction = ''] = mantissa.split('.');
  return `${whole}${fraction.padEnd(Number(exponent), '0')}`;
}
