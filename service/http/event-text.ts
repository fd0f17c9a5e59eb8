/** Formats server-sent events. */
import { JsonText } from '../../db/postgres/row-tail.ts';
import { isRecord } from '../../sdk/contract/is-record.ts';
import { KIB } from '../../sdk/contract/limits.ts';

interface EventFields {
  readonly id?: string;
  readonly type: string;
  readonly data: unknown;
}

/** A piece of `formatEvents` ends when it has this many characters. Formatting one takes a fraction of a millisecond. */
export const PIECE_CHARS = 32 * KIB;
/** Number of characters of a text that are formatted at once. A control character takes six characters in JSON. */
const SLICE_CHARS = 4 * KIB;

/**
 * Characters at which some readers end a line, though server-sent events do not: `splitlines` of Python, and earlier session
 * clients of this project, which lost such events. JSON contains them within strings only.
 */
const LINE_SEPARATORS = /[\u0085\u2028\u2029]/g;

/** Formats one event. JSON contains no line break, so the data is one line. */
export const formatEvent = ({ data, ...fields }: EventFields): string =>
  `${formatHead(fields)}${escapeLineSeparators(JSON.stringify(data))}\n\n`;

/**
 * Formats events in pieces, each when the reader asks for it, because the JSON of one event may have megabytes. A piece may begin and
 * end anywhere in an event.
 */
export function* formatEvents(events: Iterable<EventFields>): Generator<string> {
  let piece = '';
  for (const event of events) {
    for (const part of formatParts(event)) {
      piece += part;
      if (piece.length < PIECE_CHARS) continue;
      yield piece;
      piece = '';
    }
  }
  if (piece !== '') yield piece;
}

function* formatParts({ data, ...fields }: EventFields): Generator<string> {
  yield formatHead(fields);
  for (const part of formatJson(data)) yield escapeLineSeparators(part);
  yield '\n\n';
}

const escapeLineSeparators = (json: string): string =>
  json.replace(LINE_SEPARATORS, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);

const formatHead = ({ id, type }: Omit<EventFields, 'data'>): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: `;

function* formatJson(value: unknown): Generator<string> {
  if (value instanceof JsonText) {
    // A line break, which JSON allows between values, would end the line of the event.
    for (const slice of sliceText(value.text)) yield slice.replaceAll(/[\r\n]/g, ' ');
  } else if (typeof value === 'string') {
    yield '"';
    for (const slice of sliceText(value)) yield JSON.stringify(slice).slice(1, -1);
    yield '"';
  } else if (isRecord(value)) yield* formatObject(value);
  else yield JSON.stringify(value);
}

function* formatObject(object: object): Generator<string> {
  let before = '{';
  for (const [name, value] of Object.entries(object)) {
    if (value === undefined) continue;
    yield `${before}${JSON.stringify(name)}:`;
    yield* formatJson(value);
    before = ',';
  }
  yield before === '{' ? '{}' : '}';
}

function* sliceText(text: string): Generator<string> {
  for (let start = 0; start < text.length; ) {
    const end = start + SLICE_CHARS;
    // Does not split a surrogate pair: UTF-8 cannot encode its halves.
    const next = isHighSurrogate(text.charCodeAt(end - 1)) ? end + 1 : end;
    yield text.slice(start, next);
    start = next;
  }
}

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff;

/** A comment. Sent regularly, it keeps proxies from closing an idle connection. */
export const HEARTBEAT_TEXT = ': heartbeat\n\n';
